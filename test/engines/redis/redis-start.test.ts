import { describe, expect, onTestFinished, test } from 'vitest'
import { canMakeCertificates, makeCertificates } from '../../support/certificates.ts'
import {
  openTestApp,
  problemsOfStart,
  type TestApp,
  type TestAppOptions,
  temporaryFolder,
} from '../../support/open-test-app.ts'
import { canStartRedis } from '../../support/programs.ts'
import { startRedis } from '../../support/redis-server.ts'
import { shareServer } from '../../support/shared-app.ts'
import { run, spawnService } from '../../support/spawn-service.ts'
import { until, untilPasses } from '../../support/until.ts'

const LIMITS = { throttle: [{ name: 'all', by: 'ip', limit: 1000, period: '1 hour' }] }

const COUNTED = { status: 'ok' }

function optionsOf(url: string, env = {}) {
  return { env: { CACHE_STORE: 'redis', REDIS_URL: url, ...env }, limits: LIMITS }
}

const open = (url: string, env = {}) => openTestApp(optionsOf(url, env))

/** Sends a request once the service counts in Redis. */
async function count({ http }: TestApp): Promise<void> {
  await untilPasses(() => http.get('/readyz').expect(200, COUNTED))
  await http.get('/users').expect(200)
}

/** Sends requests until Redis has their counts: on a busy machine it may be silent for 40 ms, and one is counted locally. */
function untilCounted(app: TestApp, keys: () => Promise<string>): Promise<string> {
  return until(async () => {
    await count(app)
    return keys()
  })
}

/** The lines that tell why a start is refused. Tried again if Redis took a second to say so, on a busy machine. */
function refusalOf(options: TestAppOptions): Promise<readonly string[]> {
  return until(async () => {
    const problems = await problemsOfStart(options)
    return problems.length > 0 && problems
  })
}

describe.skipIf(!canStartRedis)('the start with a Redis that wants a password', () => {
  const redis = shareServer(() => startRedis({ password: 's3cret' }))

  const at = (userInfo: string, path = '') => `redis://${userInfo}127.0.0.1:${redis.port}${path}`

  test.each<[string, () => string, RegExp]>([
    ['a wrong password', () => at(':wr0ng@'), /refuses this user or password/],
    ['an unknown user', () => at('ann:wr0ng@'), /refuses this user or password/],
    ['a database that is not there', () => at(':s3cret@', '/99'), /no database of this number/],
    [
      'a list of servers that are no Cluster',
      () => `${at(':s3cret@')},127.0.0.1:1`,
      /not nodes of a Redis Cluster/,
    ],
  ])('%s ends it with a line that names REDIS_URL, with and without rules', async (_, url, why) => {
    const { env, limits } = optionsOf(url())
    for (const options of [{ env, limits }, { env }]) {
      const [line = '', ...more] = await refusalOf(options)
      expect(line).toMatch(/^REDIS_URL was "redis:\/\/(?:\*\*\*@)?127\.0\.0\.1:/)
      expect(line).toMatch(why)
      expect(line).not.toMatch(/wr0ng|s3cret/)
      expect(more).toEqual([])
    }
  })

  test('the password is not in the log, also if the server quotes what it was sent', async () => {
    const quoting = await startRedis({ args: ['--rename-command', 'AUTH', 'OTHER'] })
    onTestFinished(quoting.remove)
    const [app, other] = [
      await open(at(':s3cret@')),
      await open(`redis://:s3cret@${quoting.url.slice(8)}`),
    ]
    await count(app)
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await app.http.get('/users').expect(200)
    const reasons = await until(() => other.logLines.flatMap(({ reason }) => reason ?? []).join())
    expect(reasons).toContain("unknown command 'AUTH'")
    expect(JSON.stringify([app.logLines, other.logLines])).not.toContain('s3cret')
  })

  test('a user without the rights for a Cluster counts there', async () => {
    const rights = '+evalsha +eval +incr +pexpire +pttl'.split(' ')
    await redis.command('ACL', 'SETUSER', 'limits', 'on', '>pw', '~rights:*', ...rights)
    const app = await open(at('limits:pw@'), { REDIS_PREFIX: 'rights:' })
    const keys = () => redis.command('KEYS', 'rights:*')
    expect(await untilCounted(app, keys)).toContain('rights:')
  })

  test('a number of a database is used', async () => {
    const app = await open(at(':s3cret@', '/3'), { REDIS_PREFIX: 'third:' })
    const keys = () => redis.command('-n', '3', 'KEYS', 'third:*')
    expect(await untilCounted(app, keys)).toContain('third:')
  })
})

describe.skipIf(!canStartRedis || !canMakeCertificates)('TLS', () => {
  const certificates = shareServer(async () => makeCertificates())
  const redis = shareServer(async () => {
    for (const name of ['authority', 'server']) certificates.makeKey(name)
    certificates.makeAuthority('authority')
    const named = { commonName: 'localhost', altNames: 'DNS:localhost' }
    certificates.makeCertificate('server', { by: 'authority', key: 'server', ...named })
    const { path } = certificates
    const files = ['--tls-cert-file', path('server.pem'), '--tls-key-file', path('server.key')]
    return startRedis({
      args: [...files, '--tls-ca-cert-file', path('authority.pem'), '--tls-auth-clients', 'no'],
      tls: ['--tls', '--cacert', path('authority.pem'), '--sni', 'localhost'],
    })
  })

  /** How a process of its own is started, which trusts the private CA. */
  const trusting = (host: string) => ({
    cwd: temporaryFolder(),
    env: {
      CACHE_STORE: 'redis',
      REDIS_URL: `rediss://${host}:${redis.port}`,
      NODE_EXTRA_CA_CERTS: certificates.path('authority.pem'),
    },
  })

  test('with NODE_EXTRA_CA_CERTS, a server of a private CA counts', async () => {
    const { url, stdout } = await spawnService(trusting('localhost'))
    // What is counted on trial ends after a second.
    await untilPasses(async () => {
      expect(await (await fetch(`${url}/readyz`)).json()).toEqual(COUNTED)
      expect(await redis.command('KEYS', 'user-records:*')).not.toBe('')
    })
    expect(stdout()).not.toContain('certificate')
  })

  const NOT_TRUSTED = /^REDIS_URL was .*the certificate of the server is not trusted/

  test('a certificate for another host, or of a CA that is not trusted, stops the start', async () => {
    const { code, stderr } = await run({ ...trusting('127.0.0.1'), args: ['serve'] })
    expect([code, stderr]).toEqual([1, expect.stringMatching(NOT_TRUSTED)])
    const problems = await refusalOf(optionsOf(`rediss://localhost:${redis.port}`))
    expect(problems).toEqual([expect.stringMatching(NOT_TRUSTED)])
  })
})
