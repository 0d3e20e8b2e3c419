import { writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { PostgresLocation } from '../../src/config/postgres-url.ts'
import {
  type Config,
  type Environment,
  loadConfig,
  readSettings,
} from '../../src/config/settings.ts'
import { readLibrarySettings } from '../../src/library/library-settings.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { NO_DOTENV, problemsOf } from '../support/problems-of.ts'
import { readProject } from '../support/project.ts'

const SYSTEM_USER = userInfo().username

const MAY_BE = 'file:PATH, a path, :memory:, or postgres://USER:PASSWORD@HOST:PORT/DATABASE'

const NO_TLS_FILES = { rootCertificate: undefined, certificate: undefined, key: undefined }

const DEFAULTS: Omit<PostgresLocation, 'url'> = {
  kind: 'postgres',
  hosts: [{ host: 'localhost', port: 5432 }],
  user: SYSTEM_USER,
  database: SYSTEM_USER,
  password: undefined,
  passwordFile: undefined,
  tls: undefined,
  channelBinding: 'prefer',
  applicationName: 'user-records-service',
  connectTimeoutMs: undefined,
  options: undefined,
}

function locate(url: string, variables: Environment = {}): Config['database'] {
  return loadConfig({ ...variables, DATABASE_URL: url }, NO_DOTENV).database
}

function problemsWith(url: string, variables: Environment = {}): readonly string[] {
  return problemsOf({ ...variables, DATABASE_URL: url })
}

function dotenvOf(variables: Environment): string {
  const path = join(temporaryFolder(), '.env')
  const lines = Object.entries(variables).map(([name, text]) => `${name}="${text}"\n`)
  writeFileSync(path, lines.join(''))
  return path
}

/** What each part may be. */
const MODES =
  'it may be disable, require, verify-ca or verify-full, but not prefer or allow, which leave it to the server whether the connection is encrypted'
const PORTS = 'it may be a port from 1 to 65535, or one for each host, separated by commas'
const HOSTS = 'it may be host names, IP addresses or folders of Unix sockets, separated by commas'
const UNEQUAL = 'it has more or fewer ports (also of PGPORT) than hosts (also of PGHOST)'
const SECONDS = 'it may be a whole number of seconds, where 0 is the default of the service'
const UNENCRYPTED =
  'its parameters for TLS have no effect without sslmode, and nothing would be encrypted'
const UNBOUND = 'channel_binding=require (or PGCHANNELBINDING) needs TLS, such as sslmode=require'
const TOGETHER = 'sslcert and sslkey (PGSSLCERT and PGSSLKEY) need each other'
const KNOWN =
  'host, port, user, password, passfile, dbname, sslmode, sslrootcert, sslcert, sslkey, channel_binding, target_session_attrs, application_name, connect_timeout, options'
const MALFORMED =
  'it cannot be taken apart: a blank and each of % @ / ? & in its user or password must be percent-encoded (%40 for @)'

function at(...hosts: (readonly [string, number])[]) {
  return { hosts: hosts.map(([host, port]) => ({ host, port })) }
}

function one(host: string, port = 5432) {
  return at([host, port])
}

describe('DATABASE_URL', () => {
  const ann = { user: 'ann', database: 'ann' }

  test.each<[string, Partial<PostgresLocation>]>([
    ['postgres://', {}],
    ['POSTGRESQL:///?', {}],
    ['postgres://db.example:', one('db.example')],
    ['postgres://:6000/users', { ...one('localhost', 6000), database: 'users' }],
    ['postgres://ann:@db.example', { ...one('db.example'), ...ann }],
    [
      'postgres://a%40b:%40%3A%2F%3F%23%25@h/d%2Fe',
      { ...one('h'), user: 'a@b', password: '@:/?#%', database: 'd/e' },
    ],
    // What the WHATWG would take for something else.
    ['postgres://ann:a:b?c#d&e@h/', { ...one('h'), ...ann, password: 'a:b?c#d&e' }],
    // Several hosts, with IPv6 in brackets; as a parameter without them.
    [
      'postgres://ann@a,b:2,[::1],:4/',
      { ...ann, ...at(['a', 5432], ['b', 2], ['::1', 5432], ['localhost', 4]) },
    ],
    ['postgres:///?host=a,::1&port=6000', at(['a', 6000], ['::1', 6000])],
    ['postgres://[fe80::1%25eth0]', one('fe80::1%eth0')],
    // Folders of sockets.
    ['postgres://%2Fvar%2Frun:6000', one('/var/run', 6000)],
    // Parameters win over what is before them.
    [
      'postgres://ann:x@h:1/x?user=bob&password=s3cret&host=g&port=2&dbname=users',
      { ...one('g', 2), user: 'bob', password: 's3cret', database: 'users' },
    ],
    // A + means itself, except where it can only be a blank.
    ['postgres://h?password=a+b%2Bc', { ...one('h'), password: 'a+b+c' }],
    ['postgres://?application_name=my%20app', { applicationName: 'my app' }],
    ['postgres://?passfile=/run/pgpass', { passwordFile: '/run/pgpass' }],
    ['postgres://?connect_timeout=3', { connectTimeoutMs: 3000 }],
    ['postgres://?channel_binding=disable', { channelBinding: 'disable' }],
    ['postgres://?target_session_attrs=read-write&channel_binding=prefer', {}],
    ['postgres://?target_session_attrs=primary', {}],
    [
      'postgres://?options=-c+search_path%3Dapp+-c+work_mem%3D1MB',
      { options: '-c search_path=app -c work_mem=1MB' },
    ],
  ])('%j is understood as in libpq', (url, expected) => {
    const shown = url.replace(/\/\/[^@]*@/, '//***@').replace(/password=.*/, 'password=***')
    expect(locate(url)).toEqual({ ...DEFAULTS, ...expected, url: shown })
  })

  test('as platforms give it is understood', () => {
    const platforms = readProject('docs/postgresql.md').matchAll(/^\| \w+ \| .*?`(postgres.*?)`/gm)
    const found = Array.from(platforms, ([, url = '']) => locate(url))
    expect(found).toMatchObject([
      { user: 'ann', database: 'users', channelBinding: 'require', tls: { verify: 'none' } },
      { user: 'postgres.x', database: 'postgres', tls: { verify: 'none' } },
      { tls: { verify: 'full', rootCertificate: 'global-bundle.pem' } },
      { password: 'pw', tls: { verify: 'full', rootCertificate: undefined } },
    ])
    const ofHeroku = 'postgres://u:p@ec2-1.compute-1.amazonaws.com:5432/d'
    expect(locate(ofHeroku, { PGSSLMODE: 'require' })).toMatchObject({ tls: { verify: 'none' } })
  })

  test.each([
    ...['h/d?application_name=a;password=s3cret', 'h/d&password=s3cret', 'h/d;password=s3cret'],
    ...['h?user=root%20password=s3cret', 'h?options=-c%20x%3Dpassword=s3cret'],
  ])('postgres://%s is shown without what was meant for a password', end => {
    const { url } = locate(`postgres://${end}`)
    expect(url).toBe(`postgres://${end.replace('s3cret', '***')}`)
  })

  test.each<[string, Partial<PostgresLocation['tls']>]>([
    ['sslmode=disable&sslrootcert=ca.pem', undefined],
    ['sslmode=require', { verify: 'none' }],
    ['sslmode=require&sslrootcert=ca.pem', { verify: 'ca', rootCertificate: 'ca.pem' }],
    ['sslmode=verify-ca', { verify: 'ca' }],
    ['sslrootcert=system', { verify: 'full' }],
    [
      'sslmode=require&sslcert=c.pem&sslkey=k.pem',
      { verify: 'none', certificate: 'c.pem', key: 'k.pem' },
    ],
  ])('with %j has the TLS of libpq', (query, tls) => {
    expect(locate(`postgres://h/?${query}`)).toMatchObject({
      tls: tls && { ...NO_TLS_FILES, ...tls },
    })
  })

  test.each([
    ['h?sslmode=prefer', `its sslmode is wrong: ${MODES}`],
    ['h?sslmode=allow', `its sslmode is wrong: ${MODES}`],
    ['h?sslmode', 'its parameter sslmode is empty'],
    ['h?sslrootcert=&sslmode=require', 'its parameter sslrootcert is empty'],
    ['h?sslmod=require', `its parameter "sslmod" is none of ${KNOWN}`],
    ['h?__proto__=x', `its parameter "__proto__" is none of ${KNOWN}`],
    [
      'h?hostaddr=10.0.0.1',
      'its hostaddr is wrong: it may be left out only, because PGHOST also takes addresses',
    ],
    ['h?channel_binding=on', 'its channel_binding is wrong: it may be disable, prefer or require'],
    ['h?channel_binding=require', UNBOUND],
    ['h?channel_binding=require&sslmode=disable', UNBOUND],
    ...['any', 'read-only', 'standby', 'prefer-standby'].map(wish => [
      `h?target_session_attrs=${wish}`,
      'its target_session_attrs is wrong: it may be read-write or primary, because the service uses the host that takes writes',
    ]),
    ['h?user=a&us%65r=b', 'it has a parameter twice'],
    ['h?user=x@y', MALFORMED],
    ['h?connect_timeout=1.5', `its connect_timeout is wrong: ${SECONDS}`],
    ['h?port=65536', `its port is wrong: ${PORTS}`],
    ['h:5,g:6?port=5,6,7', UNEQUAL],
    ['h?host=h:5432', `its host is wrong: ${HOSTS}`],
    ['2001:db8::1/', MALFORMED],
    ['h/users\n', MALFORMED],
    ['h/%ff', MALFORMED],
    ['h/a%00b', MALFORMED],
    ['h?sslrootcert=ca.pem', UNENCRYPTED],
    ['h?sslcert=c.pem&sslkey=k.pem', UNENCRYPTED],
    ['h?sslmode=require&sslcert=c.pem', TOGETHER],
    ['h?sslmode=require&sslkey=k.pem', TOGETHER],
    [
      'h?sslmode=verify-ca&sslrootcert=system',
      'sslrootcert=system (or PGSSLROOTCERT) needs sslmode=verify-full',
    ],
  ])('postgres://%s is refused in one line: %s', (end, why) => {
    const problems = problemsWith(`postgres://${end}`)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(/^DATABASE_URL was "[^\n]*$/)
    expect(problems[0]?.split('", ')[1]).toBe(`but ${why}; it may be ${MAY_BE}`)
  })

  /** Each is refused, and each has `s3cret` in its password. */
  test.each([
    ...['postgres://ann:s3cret@h?sslmode=prefer', 'postgres://ann:x@s3cret@h/users'],
    ...['postgres://ann:s3cret/x@h/users', 'postgres://ann:s3cret%zz@h/users'],
    ...['postgres://h?sslmode=allow&password=s3cret', 'postgres://h?password=x@s3cret&port=0'],
    ...['postgres://h?sslpassword=s3cret', 'postgres:ann:s3cret//x@h/users'],
    ...['postgres://ann:/?s3cret=x@h/users', 'postgres://h?password=x&s3cret=y'],
    ...['postgres://h?p%61ssword=s3cret&sslmode=allow', 'postgres://h?password=x&port=0&s3cret'],
    ...['postgres://h/d?sslmode=require?password=s3cret', 'postgres://h?sslmode=a;password=s3cret'],
    ...['postgres://h?a;pwd%3Ds3cret=1', 'postgres://h?user=a;token=x&s3cret=y'],
  ])('%j is refused without its password', url => {
    const problems = problemsWith(url)
    expect(problems).toHaveLength(1)
    expect(problems[0]).not.toContain('s3cret')
  })
})

describe('variables of libpq', () => {
  const ALL: Environment = {
    PGHOST: 'g,/tmp',
    PGPORT: '6000,6001',
    PGUSER: 'bob',
    PGPASSWORD: 's3@cr:et/',
    PGPASSFILE: '/run/secrets/pgpass',
    PGDATABASE: 'users',
    PGSSLMODE: 'verify-full',
    PGSSLROOTCERT: 'ca.pem',
    PGSSLCERT: 'c.pem',
    PGSSLKEY: 'k.pem',
    PGCHANNELBINDING: 'require',
    PGTARGETSESSIONATTRS: 'primary',
    PGAPPNAME: 'app',
    PGCONNECT_TIMEOUT: '5',
    PGOPTIONS: '-c search_path=app',
  }

  test('complete a URL from the environment and from .env, where the environment wins', () => {
    const path = dotenvOf({ ...ALL, DATABASE_URL: 'postgres://', PGUSER: 'cid' })
    const { config, problems, unknown } = readSettings({ PGUSER: 'bob' }, path)
    expect({ problems, unknown }).toEqual({ problems: [], unknown: [] })
    const database: PostgresLocation = {
      ...{ kind: 'postgres', url: 'postgres://', user: 'bob', password: 's3@cr:et/' },
      passwordFile: '/run/secrets/pgpass',
      ...at(['g', 6000], ['/tmp', 6001]),
      database: 'users',
      tls: { verify: 'full', rootCertificate: 'ca.pem', certificate: 'c.pem', key: 'k.pem' },
      channelBinding: 'require',
      applicationName: 'app',
      connectTimeoutMs: 5000,
      options: '-c search_path=app',
    }
    expect(config.database).toEqual(database)
    expect(locate('postgres://', ALL)).toEqual(database)
  })

  test('yield to what the URL has, also if they are wrong, and count as unset if they are empty', () => {
    const url =
      'postgres://ann:pw@h:1/d?passfile=f&sslmode=require&sslrootcert=r&sslcert=c&sslkey=k&channel_binding=disable&target_session_attrs=read-write&application_name=a&connect_timeout=1&options=-c%20a%3Db'
    const wrong = { PGPORT: 'x', PGSSLMODE: 'prefer', PGCONNECT_TIMEOUT: 'soon', PGHOST: '[' }
    expect(locate(url, { ...ALL, ...wrong })).toEqual(locate(url))
    const empty = Object.fromEntries(Object.keys(ALL).map(name => [name, '']))
    expect(locate('postgres://', empty)).toEqual({ ...DEFAULTS, url: 'postgres://' })
  })

  test.each([
    ['PGPORT', '1,x', `; ${PORTS}`],
    ['PGSSLMODE', 'prefer', `; ${MODES}`],
    ['PGHOSTADDR', '10.0.0.1', '; it may be left out only, because PGHOST also takes addresses'],
    ['PGSERVICE', 'users', '; it may be left out only, because service files are not read'],
  ])('%s=%s is refused by its own name', (name, text, rest) => {
    expect(problemsWith('postgres://', { [name]: text })).toEqual([`${name} was "${text}"${rest}`])
  })

  test.each([
    [{ PGPORT: '1,2' }, UNEQUAL],
    [{ PGSSLMODE: 'require', PGSSLCERT: 'c.pem' }, TOGETHER],
  ])('%j do not fit together', (variables, why) => {
    expect(problemsWith('postgres://', variables)).toEqual([
      `DATABASE_URL was "postgres://", but ${why}; it may be ${MAY_BE}`,
    ])
  })

  test('of .env are warned of if they are nearly right, and not checked with SQLite', () => {
    const path = dotenvOf({ PGPASWORD: 'x', PGHOST: '[', PGHOSTADDR: 'x' })
    expect(readSettings({ PGPASWORD: 'x', PG_HOST: 'x' }, path)).toMatchObject({
      problems: [],
      unknown: [{ name: 'PGPASWORD', source: '.env', didYouMean: 'PGPASSWORD' }],
    })
  })

  test('are not read by the library', async () => {
    vi.stubEnv('PGUSER', 'bob')
    onTestFinished(() => void vi.unstubAllEnvs())
    const { config } = await readLibrarySettings({ DATABASE_URL: new URL('postgres://h/users') })
    expect(config.database).toMatchObject({ user: SYSTEM_USER, ...one('h') })
    const settings = { DATABASE_URL: 'postgres://h', PGUSER: 'bob' }
    await expect(readLibrarySettings(settings)).rejects.toThrow('PGUSER is not a setting')
  })
})
