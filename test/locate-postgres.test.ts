import { writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { type Config, type Environment, loadConfig, readSettings } from '../src/config.ts'
import type { PostgresLocation } from '../src/postgres-location.ts'
import { readRecordSettings } from '../src/wiring/record-settings.ts'
import { temporaryFolder } from './support/open-test-app.ts'
import { NO_DOTENV, problemsOf } from './support/problems-of.ts'

const SYSTEM_USER = userInfo().username

const MAY_BE = 'file:PATH, a path, :memory:, or postgres://USER:PASSWORD@HOST:PORT/DATABASE'

const NO_TLS_FILES = { rootCertificate: undefined, certificate: undefined, key: undefined }

const DEFAULTS: Omit<PostgresLocation, 'url'> = {
  kind: 'postgres',
  hosts: [{ host: 'localhost', port: 5432 }],
  user: SYSTEM_USER,
  database: SYSTEM_USER,
  password: undefined,
  tls: undefined,
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
const MODES = 'it may be disable, require, verify-ca or verify-full'
const PORTS = 'it may be a port from 1 to 65535, or one for each host, separated by commas'
const HOSTS = 'it may be host names, IP addresses or folders of Unix sockets, separated by commas'
const SECONDS = 'it may be a whole number of seconds, where 0 is the default of the service'
const FILE = 'it may be the path of a PEM file'
const UNENCRYPTED = 'has no effect without sslmode, and nothing would be encrypted'
const LEFT_TO_SERVER = 'would leave it to the server whether the connection is encrypted'

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
    ['postgresql://', {}],
    ['POSTGRES:///', {}],
    ['postgres://?', {}],
    ['postgres:///users', { database: 'users' }],
    ['postgres://db.example', one('db.example')],
    ['postgres://db.example:6000', one('db.example', 6000)],
    ['postgres://db.example:', one('db.example')],
    ['postgres://:6000/users', { ...one('localhost', 6000), database: 'users' }],
    ['postgres://ann@db.example', { ...one('db.example'), ...ann }],
    ['postgres://ann@/users', { user: 'ann', database: 'users' }],
    ['postgres://ann:@/users', { user: 'ann', database: 'users' }],
    ['postgres://:s3cret@/users', { password: 's3cret', database: 'users' }],
    [
      'postgresql://ann:s3cret@db.example:6000/users',
      { ...one('db.example', 6000), user: 'ann', password: 's3cret', database: 'users' },
    ],
    // Percent-encoding, everywhere.
    [
      'postgres://a%40b:%40%3A%2F%3F%23%25@h/d%2Fe',
      { ...one('h'), user: 'a@b', password: '@:/?#%', database: 'd/e' },
    ],
    ['postgres://h/%C3%A4?us%65r=%61', { ...one('h'), user: 'a', database: 'ä' }],
    // What the WHATWG would take for something else.
    ['postgres://ann:a:b?c#d&e@h/', { ...one('h'), ...ann, password: 'a:b?c#d&e' }],
    ['postgres://h/d/e#f', { ...one('h'), database: 'd/e#f' }],
    ['postgres://h?password=a+b=c', { ...one('h'), password: 'a+b=c' }],
    // Several hosts.
    ['postgres://a:1,b:2/', at(['a', 1], ['b', 2])],
    [
      'postgres://ann@a,b:2,[::1],:4/',
      { ...ann, ...at(['a', 5432], ['b', 2], ['::1', 5432], ['localhost', 4]) },
    ],
    ['postgres:///?host=a,b&port=6000', at(['a', 6000], ['b', 6000])],
    ['postgres:///?host=a,b&port=,2', at(['a', 5432], ['b', 2])],
    // IPv6 in brackets; without them as a parameter.
    ['postgres://[2001:db8::1]:6000/', one('2001:db8::1', 6000)],
    ['postgres://[fe80::1%25eth0]', one('fe80::1%eth0')],
    ['postgres://?host=::1', one('::1')],
    // Folders of sockets.
    [
      'postgres:///users?host=/var/run/postgresql',
      { ...one('/var/run/postgresql'), database: 'users' },
    ],
    [
      'postgres://%2Fvar%2Frun%2Fpostgresql:6000/users',
      { ...one('/var/run/postgresql', 6000), database: 'users' },
    ],
    ['postgres://localhost:6000/?host=/tmp', one('/tmp', 6000)],
    // Parameters win over what is before them.
    [
      'postgres://ann:x@h:1/x?user=bob&password=s3cret&host=g&port=2&dbname=users',
      { ...one('g', 2), user: 'bob', password: 's3cret', database: 'users' },
    ],
    ['postgres://ann:x@h?password=', { ...one('h'), ...ann }],
    ['postgres://?application_name=my%20app', { applicationName: 'my app' }],
    ['postgres://?connect_timeout=3', { connectTimeoutMs: 3000 }],
    ['postgres://?connect_timeout=0', { connectTimeoutMs: undefined }],
    ['postgres://?connect_timeout=-1&', { connectTimeoutMs: undefined }],
    ['postgres://?options=-c%20search_path%3Dapp', { options: '-c search_path=app' }],
    ['postgres://?options=-c search_path=app', { options: '-c search_path=app' }],
    [
      'postgres://?options=-c+search_path%3Dapp+-c+work_mem%3D1MB',
      { options: '-c search_path=app -c work_mem=1MB' },
    ],
    ['postgres://?options=-c%20timezone=UTC+3', { options: '-c timezone=UTC+3' }],
  ])('%j is understood as in libpq', (url, expected) => {
    expect(locate(url)).toEqual({ ...DEFAULTS, ...expected, url })
  })

  test.each<[string, Partial<PostgresLocation['tls']>]>([
    ['', undefined],
    ['sslmode=disable', undefined],
    ['sslmode=disable&sslrootcert=ca.pem', undefined],
    ['sslmode=require', { verify: 'none' }],
    ['sslmode=require&sslrootcert=ca.pem', { verify: 'ca', rootCertificate: 'ca.pem' }],
    ['sslmode=verify-ca', { verify: 'ca' }],
    [
      'sslmode=verify-full&sslrootcert=/a%20b/ca.pem',
      { verify: 'full', rootCertificate: '/a b/ca.pem' },
    ],
    ['sslmode=verify-full&sslrootcert=system', { verify: 'full' }],
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

  /** Reasons, each with what of a URL follows `postgres://`. */
  const REFUSED: readonly (readonly [string, ...string[]])[] = [
    [`its sslmode ${LEFT_TO_SERVER}: ${MODES}`, 'h?sslmode=prefer', 'h?sslmode=allow'],
    [`its sslmode is wrong: ${MODES}`, 'h?sslmode=REQUIRE'],
    ['its parameter sslmode is empty', 'h?sslmode=', 'h?sslmode'],
    ['it has the unknown parameter "ssl"', 'h?ssl=true'],
    ['it has the unknown parameter "sslmod" (did you mean sslmode?)', 'h?sslmod=require'],
    ['it has the unknown parameter "SSLMODE" (did you mean sslmode?)', 'h?SSLMODE=require'],
    ['it has the unknown parameter "__proto__"', 'h?__proto__=x'],
    ['it has the unknown parameter ""', 'h?sslmode=require&&user=a'],
    ['it has the parameter sslmode twice', 'h?sslmode=require&sslmode=require'],
    ['it has the parameter user twice', 'h?user=a&us%65r=b'],
    ['a ? in its password must be written as %3F, and an @ in a parameter as %40', 'h?user=x@y'],
    ...['user', 'dbname', 'host', 'port', 'sslrootcert', 'application_name', 'options'].map(
      name => [`its parameter ${name} is empty`, `h?${name}=`] as const,
    ),
    [`its connect_timeout is wrong: ${SECONDS}`, 'h?connect_timeout=1.5', 'h?connect_timeout=2s'],
    [`its port is wrong: ${PORTS}`, 'h?port=0', 'h?port=65536', 'h?port=5432.5'],
    [`its port has 3 ports for 2 hosts: ${PORTS}`, 'h:5,g:6?port=5,6,7'],
    [`its port has 2 ports for 1 host: ${PORTS}`, 'h?port=5,6'],
    [`its host is wrong: ${HOSTS}`, 'h?host=a%20b', 'h?host=[::1]', 'h?host=h:5432'],
    ['a host in it is not HOST, HOST:PORT or [IPV6]:PORT', ...['2001:db8::1/', '[::1/', '[::1]x/']],
    ['the text in brackets in it is not an IPv6 address', '[]/', '[127.0.0.1]/'],
    ['a blank in it must be written as %20', 'h /users', 'h/users ', 'h/users\n'],
    [
      'a % in it does not begin an encoded character: write % itself as %25',
      ...['h/%', 'h/%zz', 'h/%ff'],
    ],
    ['it has the character %00', 'h/a%00b'],
    [`its sslrootcert ${UNENCRYPTED}: ${FILE}`, 'h?sslrootcert=ca.pem'],
    [`its sslcert ${UNENCRYPTED}: ${FILE}`, 'h?sslcert=c.pem&sslkey=k'],
    [`its sslcert needs sslkey or PGSSLKEY: ${FILE}`, 'h?sslmode=require&sslcert=c.pem'],
    [`its sslkey needs sslcert or PGSSLCERT: ${FILE}`, 'h?sslmode=require&sslkey=k'],
    [
      `its sslmode is too weak for sslrootcert=system, which needs verify-full: ${MODES}`,
      'h?sslmode=verify-ca&sslrootcert=system',
    ],
  ]

  test.each(REFUSED.flatMap(([why, ...ends]) => ends.map(end => [`postgres://${end}`, why])))(
    '%j is refused in one line that says why',
    (url, why) => {
      const problems = problemsWith(url)
      expect(problems).toHaveLength(1)
      expect(problems[0]).toMatch(/^DATABASE_URL was "[^\n]*$/)
      expect(problems[0]?.split('", ')[1]).toBe(`but ${why}; it may be ${MAY_BE}`)
    },
  )

  /** Each is refused, and each has `s3cret` in its password. */
  test.each([
    'postgres://ann:s3cret@h?sslmode=prefer',
    'postgres://ann:s3cret@x@h/users',
    'postgres://ann:x@s3cret@h/users',
    'postgres://ann:x/s3cret@h/users',
    'postgres://ann:s3cret/x@h/users',
    'postgres://ann:x:s3cret@h?port=x',
    'postgres://ann:s3cret%40h/users',
    'postgres://ann:s3cret%zz@h/users',
    'postgres://ann:s3cret%40%3A%2F@h:x/users',
    'postgres://ann:s3cret',
    'postgres://ann:s3cret/users',
    'postgres://h?password=s3cret&sslmode=allow',
    'postgres://h?sslmode=allow&password=s3cret',
    'postgres://h?password=s3cret%',
    'postgres://h?password=x@s3cret&port=0',
    'postgres://h?password=x&s3cret',
    'postgres://h?password=x&s3cret=1',
    'postgres://h?password=x&y@s3cret=1',
    'postgres://h:1?password=x@s3cret',
    'postgres://h?password=x%26y/s3cret&password=x',
    'postgres://h?pass%77ord=s3cret&port=0',
    'postgres://h?sslpassword=s3cret',
    'postgres:ann:s3cret@h/users',
    'postgres:ann:s3cret//x@h/users',
    'postgres://ann:x/y?s3cret@h/users',
    'postgres://ann:/?s3cret=x@h/users',
    'postgres:/ann:s3cret@h/users',
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
    PGDATABASE: 'users',
    PGSSLMODE: 'verify-full',
    PGSSLROOTCERT: 'ca.pem',
    PGSSLCERT: 'c.pem',
    PGSSLKEY: 'k.pem',
    PGAPPNAME: 'app',
    PGCONNECT_TIMEOUT: '5',
    PGOPTIONS: '-c search_path=app',
  }
  const FROM_ALL: Omit<PostgresLocation, 'url'> = {
    kind: 'postgres',
    ...at(['g', 6000], ['/tmp', 6001]),
    user: 'bob',
    password: 's3@cr:et/',
    database: 'users',
    tls: { verify: 'full', rootCertificate: 'ca.pem', certificate: 'c.pem', key: 'k.pem' },
    applicationName: 'app',
    connectTimeoutMs: 5000,
    options: '-c search_path=app',
  }

  test('complete a URL that leaves everything out', () => {
    expect(locate('postgres://', ALL)).toEqual({ ...FROM_ALL, url: 'postgres://' })
  })

  test('yield to what the URL has, also if they are wrong', () => {
    const url =
      'postgres://ann:pw@h:1/d?sslmode=require&sslrootcert=r&sslcert=c&sslkey=k&application_name=a&connect_timeout=1&options=-c%20a%3Db'
    const wrong = {
      ...ALL,
      PGPORT: 'x',
      PGSSLMODE: 'prefer',
      PGCONNECT_TIMEOUT: 'soon',
      PGHOST: '[',
    }
    expect(locate(url, wrong)).toEqual(locate(url))
  })

  test('that are empty count as unset', () => {
    const empty = Object.fromEntries(Object.keys(ALL).map(name => [name, '']))
    expect(locate('postgres://', empty)).toEqual({ ...DEFAULTS, url: 'postgres://' })
  })

  test('are read from .env too, without a warning, and the environment wins', () => {
    const path = dotenvOf({ ...ALL, DATABASE_URL: 'postgres://' })
    const { config, problems, unknown } = readSettings({ PGUSER: 'ann' }, path)
    expect({ database: config.database, problems, unknown }).toEqual({
      database: { ...FROM_ALL, user: 'ann', url: 'postgres://' },
      problems: [],
      unknown: [],
    })
  })

  test('of .env are not warned of with SQLite either, and not checked', () => {
    const path = dotenvOf({ PGHOST: '[', PGSSLMODE: 'prefer', PGHOSTADDR: 'x' })
    expect(readSettings({}, path)).toMatchObject({ problems: [], unknown: [] })
  })

  test.each([
    ['PGHOST', 'a b', `; ${HOSTS}`],
    ['PGPORT', '0', `; ${PORTS}`],
    ['PGPORT', '1,2', `, but it has 2 ports for 1 host; ${PORTS}`],
    ['PGSSLMODE', 'prefer', `, but it ${LEFT_TO_SERVER}; ${MODES}`],
    ['PGSSLMODE', 'yes', `; ${MODES}`],
    ['PGCONNECT_TIMEOUT', 'soon', `; ${SECONDS}`],
    ['PGHOSTADDR', '10.0.0.1', '; it may be left out only, because PGHOST also takes addresses'],
    ['PGSERVICE', 'users', '; it may be left out only, because service files are not read'],
  ])('%s=%s is refused by its own name', (name, text, rest) => {
    expect(problemsWith('postgres://', { [name]: text })).toEqual([`${name} was "${text}"${rest}`])
  })

  test('of a client certificate without its key are refused, if there is TLS', () => {
    const certificate = { PGSSLCERT: 'c.pem' }
    expect(problemsWith('postgres://', certificate)).toEqual([])
    expect(problemsWith('postgres://?sslmode=require', certificate)).toEqual([
      `PGSSLCERT was "c.pem", but it needs sslkey or PGSSLKEY; ${FILE}`,
    ])
    expect(problemsWith('postgres://?sslmode=require&sslkey=k.pem', certificate)).toEqual([])
  })

  test('that are wrong are all told, beside other settings', () => {
    const wrong = { PGPORT: 'x', PGSSLMODE: 'allow', PORT: 'http' }
    const names = problemsWith('postgres://', wrong).map(line => line.split(' ')[0])
    expect(names).toEqual(['PORT', 'PGPORT', 'PGSSLMODE'])
  })

  test('that are nearly right are warned of in .env', () => {
    const path = dotenvOf({ PGPASWORD: 'x', PGUSER: 'ann' })
    expect(readSettings({ PGPASWORD: 'x', PG_HOST: 'x' }, path).unknown).toEqual([
      { name: 'PGPASWORD', source: '.env', didYouMean: 'PGPASSWORD' },
    ])
  })

  test('are not read by the library', async () => {
    vi.stubEnv('PGUSER', 'bob')
    onTestFinished(() => void vi.unstubAllEnvs())
    const { config } = await readRecordSettings({ DATABASE_URL: new URL('postgres://h/users') })
    expect(config.database).toMatchObject({ user: SYSTEM_USER, ...one('h') })
    const settings = { DATABASE_URL: 'postgres://h', PGUSER: 'bob' }
    await expect(readRecordSettings(settings)).rejects.toThrow('PGUSER is not a setting')
  })
})
