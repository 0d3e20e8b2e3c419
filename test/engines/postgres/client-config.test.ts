import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { PostgresLocation } from '../../../src/config/postgres-url.ts'
import { loadConfig } from '../../../src/config/settings.ts'
import { createClientConfigs, PostgresClient } from '../../../src/storage/postgres/client-config.ts'
import { UnusableDatabase } from '../../../src/storage/unusable-database.ts'
import { canMakeCertificates, makeCertificates } from '../../support/certificates.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { createPostgresCluster } from '../../support/postgres-cluster.ts'
import { queryPostgres } from '../../support/postgres-databases.ts'
import { canStartClusters } from '../../support/programs.ts'
import { shareServer } from '../../support/shared-app.ts'
import { until } from '../../support/until.ts'

const SERVER_CERTIFICATES = {
  name: { commonName: 'server', altNames: 'DNS:localhost' },
  address: { commonName: 'server', altNames: 'IP:127.0.0.1' },
  otherName: { commonName: 'localhost', altNames: 'DNS:db.example' },
}

type ServerCertificate = keyof typeof SERVER_CERTIFICATES | 'self'

describe.skipIf(!canStartClusters || !canMakeCertificates)('a connection', () => {
  const files = shareServer(async () => makeCertificates())
  const cluster = shareServer(async () => {
    for (const name of ['ca', 'otherCa', 'self', 'server', 'client']) files.makeKey(name)
    for (const name of ['ca', 'otherCa', 'self']) files.makeAuthority(name)
    for (const [name, options] of Object.entries(SERVER_CERTIFICATES)) {
      files.makeCertificate(name, { by: 'ca', key: 'server', ...options })
    }
    const key = 'client'
    files.makeCertificate('ann', { by: 'ca', key, commonName: 'ann' })
    files.makeCertificate('bob', { by: 'ca', key, commonName: 'bob' })
    files.makeCertificate('annOfOther', { by: 'otherCa', key, commonName: 'ann' })
    const names = ['ca.pem', 'self.pem', 'self.key', 'server.key']
    const all = [...names, ...Object.keys(SERVER_CERTIFICATES).map(name => `${name}.pem`)]
    const started = await createPostgresCluster({
      configuration: [
        'ssl = on',
        `ssl_ca_file = 'ca.pem'`,
        `ssl_cert_file = 'name.pem'`,
        `ssl_key_file = 'server.key'`,
      ],
      authentication: [
        'hostssl all ann 127.0.0.1/32 cert',
        'hostnossl all ann 127.0.0.1/32 reject',
        'host all eve 127.0.0.1/32 scram-sha-256',
        'host all dan 127.0.0.1/32 md5',
      ],
      files: Object.fromEntries(all.map(name => [name, files.text(name)])),
    })
    await queryPostgres(
      started.url(),
      `SET password_encryption = 'scram-sha-256';
      CREATE ROLE ann LOGIN; CREATE ROLE bob LOGIN; CREATE ROLE eve LOGIN PASSWORD 's3cret';
      SET password_encryption = 'md5'; CREATE ROLE dan LOGIN PASSWORD 's3cret'`,
    )
    return started
  })

  /** A parameter `name` whose value ends in `.pem` or `.key` is the path of that file. */
  function locate(query: string, user = 'bob', host = 'localhost'): PostgresLocation {
    const parameters = query.replaceAll(
      /=(\w+\.(?:pem|key))/g,
      (_, file: string) => `=${encodeURIComponent(files.path(file))}`,
    )
    const url = `postgres://${user}@${host}:${cluster.port}/postgres?${parameters}`
    const { database } = loadConfig({ DATABASE_URL: url }, '/none/.env')
    return database as PostgresLocation
  }

  /** Whether the connection is encrypted. Throws if there is none. */
  async function isEncrypted(query: string, user?: string, host?: string): Promise<unknown> {
    const text = 'SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()'
    return (await select(locate(query, user, host), text))?.ssl
  }

  async function select(location: PostgresLocation, text: string) {
    const client = clientOf(location)
    // Not awaited: after a handshake that failed, it may wait for an end that was there already.
    onTestFinished(() => void client.end().catch(() => {}))
    await client.connect()
    return (await client.query<Record<string, unknown>>(text)).rows[0]
  }

  function clientOf(location: PostgresLocation): PostgresClient {
    const [config = {}] = createClientConfigs(location)
    return new PostgresClient(config).on('error', () => {})
  }

  async function serveWith(settings: Readonly<Record<string, string>>): Promise<void> {
    const query = (text: string) => queryPostgres(cluster.url(), text)
    const entries = Object.entries(settings)
    for (const [name, value] of entries) await query(`ALTER SYSTEM SET ${name} = '${value}'`)
    await query('SELECT pg_reload_conf()')
    // A new session has the settings of the server's first process, which then has read its certificate again.
    for (const [name, value] of entries) {
      await until(async () => (await query(`SHOW ${name}`))[0]?.[name] === value)
    }
  }

  let served: ServerCertificate = 'name'

  async function serveCertificate(name: ServerCertificate): Promise<void> {
    if (name === served) return
    served = name
    const key = name === 'self' ? 'self' : 'server'
    await serveWith({ ssl_cert_file: `${name}.pem`, ssl_key_file: `${key}.key` })
  }

  const NOT_TRUSTED = 'self-signed certificate in certificate chain'
  const WRONG_NAME = 'does not match certificate'
  const FULL = 'sslmode=verify-full&sslrootcert=ca.pem'

  /** The certificate of the server, the query, and whether a connection is encrypted, or why there is none. */
  test.each<[ServerCertificate, string, string, boolean | string]>([
    ['name', '', 'localhost', false],
    ['name', 'sslmode=require', '127.0.0.1', true],
    ['name', 'sslmode=require&sslrootcert=ca.pem', '127.0.0.1', true],
    ['name', 'sslmode=require&sslrootcert=otherCa.pem', 'localhost', NOT_TRUSTED],
    ['name', 'sslmode=verify-ca&sslrootcert=ca.pem', '127.0.0.1', true],
    ['name', 'sslmode=verify-ca&sslrootcert=otherCa.pem', 'localhost', NOT_TRUSTED],
    ['name', FULL, 'localhost', true],
    ['name', FULL, '127.0.0.1', WRONG_NAME],
    ['name', 'sslmode=verify-full&sslrootcert=otherCa.pem', 'localhost', NOT_TRUSTED],
    ['name', 'sslrootcert=system', 'localhost', NOT_TRUSTED],
    ['address', FULL, '127.0.0.1', true],
    ['address', FULL, 'localhost', WRONG_NAME],
    ['otherName', FULL, 'localhost', WRONG_NAME],
    ['self', 'sslmode=verify-ca&sslrootcert=self.pem', 'localhost', true],
    ['self', 'sslmode=verify-ca&sslrootcert=ca.pem', 'localhost', 'self-signed certificate'],
  ])(
    'to a server with the certificate %s, with %j to %s: %s',
    async (name, query, host, outcome) => {
      await serveCertificate(name)
      const result = isEncrypted(query, 'bob', host)
      if (typeof outcome === 'boolean') expect(await result).toBe(outcome)
      else await expect(result).rejects.toThrow(outcome)
    },
  )

  const withCertificate = (name: string) => `${FULL}&sslcert=${name}.pem&sslkey=client.key`

  test.each<[string, string, true | string | RegExp]>([
    ['of its role', withCertificate('ann'), true],
    ['of another role', withCertificate('bob'), 'certificate authentication failed'],
    ['of another authority', withCertificate('annOfOther'), /unknown ca|ECONNRESET|EPIPE/],
    ['that is missing', 'sslmode=require', 'connection requires a valid client certificate'],
    ['and no TLS', '', 'pg_hba.conf rejects connection'],
  ])('with a client certificate %s', async (_, query, outcome) => {
    await serveCertificate('name')
    const result = isEncrypted(query, 'ann')
    if (outcome === true) expect(await result).toBe(true)
    else await expect(result).rejects.toThrow(outcome)
  })

  test('needs TLS of the server for each mode but disable, except by a socket', async () => {
    await serveWith({ ssl: 'off' })
    onTestFinished(() => serveWith({ ssl: 'on' }))
    for (const mode of ['require', 'verify-ca', 'verify-full']) {
      const refused = isEncrypted(`sslmode=${mode}`)
      await expect(refused).rejects.toThrow('The server does not support SSL connections')
      expect(await isEncrypted(`sslmode=${mode}&host=${cluster.socketFolder}`)).toBe(false)
    }
    expect(await isEncrypted('sslmode=disable')).toBe(false)
  })

  test.each([
    ['', 'SCRAM-SHA-256-PLUS'],
    ['&channel_binding=prefer', 'SCRAM-SHA-256-PLUS'],
    ['&channel_binding=require', 'SCRAM-SHA-256-PLUS'],
    ['&channel_binding=disable', 'SCRAM-SHA-256'],
  ])(
    'binds its password to the certificate of the server as channel_binding says: %j, by %s',
    async (parameter, mechanism) => {
      const client = clientOf(locate(`sslmode=require&password=s3cret${parameter}`, 'eve'))
      const { connection } = client as unknown as { connection: NodeJS.EventEmitter }
      const used = once(connection, 'authenticationSASLContinue').then(
        () => (client as unknown as { saslSession: { mechanism: string } }).saslSession.mechanism,
      )
      await client.connect()
      await client.end()
      expect(await used).toBe(mechanism)
    },
  )

  test('with channel_binding=require gives a server that cannot bind it no password, and takes no other answer', async () => {
    const required = 'channel_binding=require&sslmode=require&password=s3cret'
    const refusal = /does not ask for a password by SCRAM-SHA-256-PLUS/
    // Trusted, asked for an MD5 digest, known by a certificate, and without TLS.
    await expect(isEncrypted(required, 'bob')).rejects.toThrow(refusal)
    await expect(isEncrypted(required, 'dan')).rejects.toThrow(refusal)
    const certificate = `${required}&sslcert=ann.pem&sslkey=client.key`
    await expect(isEncrypted(certificate, 'ann')).rejects.toThrow(refusal)
    const bySocket = `${required}&host=${cluster.socketFolder}`
    await expect(isEncrypted(bySocket, 'eve')).rejects.toThrow(refusal)
    expect(await isEncrypted(required, 'eve')).toBe(true)
  })

  test('takes nothing from the environment', async () => {
    setVariables({ PGHOST: '192.0.2.1', PGPORT: '1', PGUSER: 'eve', PGSSLMODE: 'require' })
    setVariables({ PGAPPNAME: 'leaked', PGOPTIONS: '-c search_path=leaked', PGPASSWORD: 's3cret' })
    const file = join(temporaryFolder(), '.pgpass')
    writeFileSync(file, '*:*:*:*:s3cret\n', { mode: 0o600 })
    setVariables({ PGPASSFILE: file })
    const settings = `current_setting('application_name') AS name, current_setting('search_path') AS path`
    const text = `SELECT current_user AS "user", ${settings}`
    expect(await select(locate(''), text)).toEqual({
      user: 'bob',
      name: 'user-records-service',
      path: '"$user", public',
    })
    expect(await isEncrypted('')).toBe(false)
    for (const user of ['eve', 'dan']) {
      await expect(isEncrypted('', user)).rejects.toThrow(
        new UnusableDatabase('the server asks for a password, and none is given'),
      )
      expect(await isEncrypted('password=s3cret', user)).toBe(false)
    }
    const location = locate('application_name=app&options=-c%20search_path%3Dmine')
    expect(await select(location, `SELECT ${settings}`)).toEqual({ name: 'app', path: 'mine' })
  })
})

function setVariables(variables: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value)
  onTestFinished(() => void vi.unstubAllEnvs())
}
