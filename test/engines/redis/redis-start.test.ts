import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  type Certificates,
  canMakeCertificates,
  makeCertificates,
} from '../../support/certificates.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { type RedisServer, startRedis } from '../../support/redis-server.ts'
import { canStartRedis, canUseRedis } from '../../support/redis-settings.ts'
import { run, spawnService } from '../../support/spawn-service.ts'
import { useTestRedis } from '../../support/test-redis.ts'
import { untilPasses } from '../../support/until.ts'

const LOST = 'Redis cannot be used, limits are counted locally'

function limitsOf(limit: number) {
  return { throttle: [{ name: 'all', by: 'ip', limit, period: '1 hour' }] }
}

/** A folder with a limits file, and the variables of a service in it. */
function prepare(url: string, limit = 3) {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, 'limits.json'), JSON.stringify(limitsOf(limit)))
  return { cwd, env: { CACHE_STORE: 'redis', REDIS_URL: url, LIMITS_FILE: 'limits.json' } }
}

describe.skipIf(!canStartRedis)('the start with a Redis that refuses the service', () => {
  const password = 's3cret'
  let redis: RedisServer

  beforeAll(async () => {
    redis = await startRedis({ password })
  })

  afterAll(() => redis.remove())

  const at = (userInfo: string, path = '') => `redis://${userInfo}127.0.0.1:${redis.port}${path}`

  test.each<[string, () => string, RegExp]>([
    ['a wrong password', () => at(':wr0ng@'), /refuses this user or password/],
    ['no password', () => at(''), /refuses this user or password/],
    ['an unknown user', () => at('ann:wr0ng@'), /refuses this user or password/],
    [
      'a database that is not there',
      () => at(`:${password}@`, '/99'),
      /no database of this number/,
    ],
    [
      'a list of servers that are no Cluster',
      () => at(`:${password}@`).concat(',127.0.0.1:1'),
      /not nodes of a Redis Cluster/,
    ],
  ])('%s stops it with a line that names REDIS_URL', async (_name, url, why) => {
    const { code, stdout, stderr } = await run({ ...prepare(url()), args: ['serve'] })
    expect(code).toBe(1)
    const [line = '', ...more] = `${stdout}${stderr}`
      .trim()
      .split('\n')
      .filter(text => text.includes('REDIS_URL'))
    expect(line).toMatch(/REDIS_URL was \\?"redis:\/\/(?:\*\*\*@)?127\.0\.0\.1:/)
    expect(line).toMatch(why)
    expect(more).toEqual([])
    expect(`${stdout}${stderr}`).not.toMatch(/wr0ng|s3cret/)
  })

  test('a wrong password stops it without rules too', async () => {
    const { cwd, env } = prepare(at(':wr0ng@'))
    const { code, stderr } = await run({ cwd, env: { ...env, LIMITS_FILE: '' }, args: ['serve'] })
    expect(code).toBe(1)
    expect(stderr).toMatch(/^REDIS_URL was ".*refuses this user or password/)
  })

  test('the password that the server wants is not in the log', async () => {
    const { cwd, env } = prepare(at(`:${password}@`))
    const service = await spawnService({ cwd, env: { ...env, LOG_LEVEL: 'trace' } })
    await fetch(`${service.url}/users`)
    await redis.command('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await fetch(`${service.url}/users`)
    expect(service.stdout()).not.toContain(password)
  })

  test('a user without the rights for a Cluster counts there', async () => {
    const rights = '+evalsha +eval +incr +pexpire +pttl +del'.split(' ')
    await redis.command('ACL', 'SETUSER', 'limits', 'on', '>pw', '~user-records:*', ...rights)
    const app = await openTestApp({
      limits: limitsOf(1000),
      env: { CACHE_STORE: 'redis', REDIS_URL: at('limits:pw@') },
    })
    await untilPasses(() => app.http.get('/readyz').expect(200, { status: 'ok' }))
    await app.http.get('/users').expect(200)
    expect(await redis.command('KEYS', 'user-records:*')).not.toBe('')
  })

  test('a number of a database is used', async () => {
    const app = await openTestApp({
      limits: limitsOf(1000),
      env: { CACHE_STORE: 'redis', REDIS_URL: at(`:${password}@`, '/3'), REDIS_PREFIX: 'third:' },
    })
    await untilPasses(() => app.http.get('/readyz').expect(200, { status: 'ok' }))
    expect(await redis.command('-n', '3', 'KEYS', 'third:*')).toBe('third:trial')
    expect(await redis.command('KEYS', 'third:*')).toBe('')
  })
})

describe.skipIf(!canStartRedis)('a Redis that quotes what it was sent', () => {
  test('its reason is in the log without the password', async () => {
    const redis = await startRedis({ args: ['--rename-command', 'AUTH', 'OTHER'] })
    onTestFinished(() => redis.remove())
    const { cwd, env } = prepare(`redis://:s3cret@127.0.0.1:${redis.port}`)
    const service = await spawnService({ cwd, env })
    await untilPasses(() => expect(service.stdout()).toContain("unknown command 'AUTH'"))
    expect(service.stdout()).not.toContain('s3cret')
  })
})

describe.skipIf(!canStartRedis || !canMakeCertificates)('TLS', () => {
  let certificates: Certificates
  let redis: RedisServer

  beforeAll(async () => {
    certificates = makeCertificates()
    for (const name of ['authority', 'server']) certificates.makeKey(name)
    certificates.makeAuthority('authority')
    certificates.makeCertificate('server', {
      by: 'authority',
      key: 'server',
      commonName: 'localhost',
      altNames: 'DNS:localhost',
    })
    const { path } = certificates
    const files = ['--tls-cert-file', path('server.pem'), '--tls-key-file', path('server.key')]
    redis = await startRedis({
      args: [...files, '--tls-ca-cert-file', path('authority.pem'), '--tls-auth-clients', 'no'],
      tls: ['--tls', '--cacert', path('authority.pem'), '--sni', 'localhost'],
    })
  })

  afterAll(async () => {
    await redis.remove()
    certificates.remove()
  })

  test('with NODE_EXTRA_CA_CERTS, a server of a private CA counts', async () => {
    const { cwd, env } = prepare(`rediss://localhost:${redis.port}`)
    const trusted = { ...env, NODE_EXTRA_CA_CERTS: certificates.path('authority.pem') }
    const { url, stdout } = await spawnService({ cwd, env: trusted })
    await untilPasses(async () => {
      const response = await fetch(`${url}/readyz`)
      expect(await response.json()).toEqual({ status: 'ok' })
    })
    await fetch(`${url}/users`)
    expect(await redis.command('KEYS', 'user-records:*')).not.toBe('')
    expect(stdout()).not.toContain('certificate')
  })

  test.each([
    ['of a CA that is not trusted', 'localhost', 'server.pem'],
    ['for another host', '127.0.0.1', 'authority.pem'],
  ])('a certificate %s stops the start', async (_name, host, trusted) => {
    const { cwd, env } = prepare(`rediss://${host}:${redis.port}`)
    const trust = { NODE_EXTRA_CA_CERTS: certificates.path(trusted) }
    const { code, stdout, stderr } = await run({ cwd, env: { ...env, ...trust }, args: ['serve'] })
    expect(code).toBe(1)
    expect(`${stdout}${stderr}`).toMatch(
      /REDIS_URL was .*the certificate of the server is not trusted/,
    )
  })

  test('a server with TLS is not reached without it', async () => {
    const app = await openTestApp({
      limits: limitsOf(1000),
      env: { CACHE_STORE: 'redis', REDIS_URL: `redis://localhost:${redis.port}` },
    })
    await app.http.get('/users').expect(200)
    await app.http.get('/readyz').expect(200, { status: 'ok', limits: 'local' })
  })
})

describe.skipIf(!canUseRedis)('several processes', () => {
  const redis = useTestRedis()

  test('pass exactly as many requests as one', async () => {
    // Again if Redis was lost meanwhile: on a busy machine, it may be silent for 50 ms.
    for (;;) {
      const statuses = await sendToFour(400)
      if (statuses === undefined) continue
      expect(statuses.filter(status => status === 200)).toHaveLength(100)
      expect(statuses.filter(status => status === 429)).toHaveLength(300)
      break
    }
  })

  /** Statuses of requests that are sent at once to four processes with one database, unless one of them lost Redis. */
  async function sendToFour(requests: number): Promise<number[] | undefined> {
    const { cwd, env } = prepare(redis.url, 100)
    const own = { ...env, REDIS_PREFIX: redis.newPrefix(), DATABASE_URL: 'users.db' }
    const first = await spawnService({ cwd, env: own })
    const others = [1, 2, 3].map(() => spawnService({ cwd, env: own }))
    const services = [first, ...(await Promise.all(others))]
    const responses = await Promise.all(
      Array.from({ length: requests }, (_, index) => fetch(`${services[index % 4]?.url}/users`)),
    )
    for (const service of services) {
      service.process.kill('SIGTERM')
      await service.exited
    }
    const isDisturbed = services.some(({ stdout }) => stdout().includes(LOST))
    return isDisturbed ? undefined : responses.map(({ status }) => status)
  }
})
