import { writeFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { type Config, type Environment, loadConfig, readSettings } from '../src/config.ts'
import { OperatorError } from '../src/errors.ts'
import type { PostgresLocation } from '../src/postgres-location.ts'
import { readRecordSettings } from '../src/wiring/record-settings.ts'
import { temporaryFolder } from './support/open-test-app.ts'

const NO_DOTENV = fileURLToPath(new URL('./no-such-folder/.env', import.meta.url))

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

function problemsOf(url: string, variables: Environment = {}): readonly string[] {
  try {
    locate(url, variables)
    return []
  } catch (error) {
    if (error instanceof OperatorError) return error.problems
    throw error
  }
}

describe('DATABASE_URL', () => {
  const one = (host: string, port = 5432) => ({ hosts: [{ host, port }] })
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
    [
      'postgres://a:1,b:2/',
      {
        hosts: [
          { host: 'a', port: 1 },
          { host: 'b', port: 2 },
        ],
      },
    ],
    [
      'postgres://ann@a,b:2,[::1],:4/',
      {
        ...ann,
        hosts: [
          { host: 'a', port: 5432 },
          { host: 'b', port: 2 },
          { host: '::1', port: 5432 },
          { host: 'localhost', port: 4 },
        ],
      },
    ],
    [
      'postgres:///?host=a,b&port=6000',
      {
        hosts: [
          { host: 'a', port: 6000 },
          { host: 'b', port: 6000 },
        ],
      },
    ],
    [
      'postgres:///?host=a,b&port=,2',
      {
        hosts: [
          { host: 'a', port: 5432 },
          { host: 'b', port: 2 },
        ],
      },
    ],
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

  test.each<[string, PostgresLocation['tls']]>([
    ['', undefined],
    ['sslmode=disable', undefined],
    ['sslmode=disable&sslrootcert=ca.pem', undefined],
    ['sslmode=require', { ...NO_TLS_FILES, verify: 'none' }],
    [
      'sslmode=require&sslrootcert=ca.pem',
      { ...NO_TLS_FILES, verify: 'ca', rootCertificate: 'ca.pem' },
    ],
    ['sslmode=verify-ca', { ...NO_TLS_FILES, verify: 'ca' }],
    [
      'sslmode=verify-full&sslrootcert=/a%20b/ca.pem',
      { ...NO_TLS_FILES, verify: 'full', rootCertificate: '/a b/ca.pem' },
    ],
    ['sslmode=verify-full&sslrootcert=system', { ...NO_TLS_FILES, verify: 'full' }],
    ['sslrootcert=system', { ...NO_TLS_FILES, verify: 'full' }],
    [
      'sslmode=require&sslcert=c.pem&sslkey=k.pem',
      { verify: 'none', rootCertificate: undefined, certificate: 'c.pem', key: 'k.pem' },
    ],
  ])('with %j has the TLS of libpq', (query, tls) => {
    expect(locate(`postgres://h/?${query}`)).toMatchObject({ tls })
  })

  test.each([
    [
      'postgres://h?sslmode=prefer',
      'its sslmode would leave it to the server whether the connection is encrypted: it may be disable, require, verify-ca or verify-full',
    ],
    [
      'postgres://h?sslmode=allow',
      'its sslmode would leave it to the server whether the connection is encrypted: it may be disable, require, verify-ca or verify-full',
    ],
    [
      'postgres://h?sslmode=REQUIRE',
      'its sslmode is wrong: it may be disable, require, verify-ca or verify-full',
    ],
    ['postgres://h?sslmode=', 'its parameter sslmode is empty'],
    ['postgres://h?sslmode', 'its parameter sslmode is empty'],
    ['postgres://h?ssl=true', 'it has the unknown parameter "ssl"'],
    [
      'postgres://h?sslmod=require',
      'it has the unknown parameter "sslmod" (did you mean sslmode?)',
    ],
    [
      'postgres://h?SSLMODE=require',
      'it has the unknown parameter "SSLMODE" (did you mean sslmode?)',
    ],
    ['postgres://h?__proto__=x', 'it has the unknown parameter "__proto__"'],
    ['postgres://h?sslmode=require&&user=a', 'it has the unknown parameter ""'],
    ['postgres://h?sslmode=require&sslmode=require', 'it has the parameter sslmode twice'],
    ['postgres://h?user=a&us%65r=b', 'it has the parameter user twice'],
    [
      'postgres://h?user=x@y',
      'a ? in its password must be written as %3F, and an @ in a parameter as %40',
    ],
    ['postgres://h?user=', 'its parameter user is empty'],
    ['postgres://h?dbname=', 'its parameter dbname is empty'],
    ['postgres://h?host=', 'its parameter host is empty'],
    ['postgres://h?port=', 'its parameter port is empty'],
    ['postgres://h?sslrootcert=', 'its parameter sslrootcert is empty'],
    ['postgres://h?application_name=', 'its parameter application_name is empty'],
    ['postgres://h?options=', 'its parameter options is empty'],
    [
      'postgres://h?connect_timeout=1.5',
      'its connect_timeout is wrong: it may be a whole number of seconds, where 0 is the default of the service',
    ],
    [
      'postgres://h?connect_timeout=2s',
      'its connect_timeout is wrong: it may be a whole number of seconds, where 0 is the default of the service',
    ],
    [
      'postgres://h?port=0',
      'its port is wrong: it may be a port from 1 to 65535, or one for each host, separated by commas',
    ],
    [
      'postgres://h?port=65536',
      'its port is wrong: it may be a port from 1 to 65535, or one for each host, separated by commas',
    ],
    [
      'postgres://h?port=5432.5',
      'its port is wrong: it may be a port from 1 to 65535, or one for each host, separated by commas',
    ],
    [
      'postgres://h:5,g:6?port=5,6,7',
      'its port has 3 ports for 2 hosts: it may be a port from 1 to 65535, or one for each host, separated by commas',
    ],
    [
      'postgres://h?port=5,6',
      'its port has 2 ports for 1 host: it may be a port from 1 to 65535, or one for each host, separated by commas',
    ],
    [
      'postgres://h?host=a%20b',
      'its host is wrong: it may be host names, IP addresses or folders of Unix sockets, separated by commas',
    ],
    [
      'postgres://h?host=[::1]',
      'its host is wrong: it may be host names, IP addresses or folders of Unix sockets, separated by commas',
    ],
    [
      'postgres://h?host=h:5432',
      'its host is wrong: it may be host names, IP addresses or folders of Unix sockets, separated by commas',
    ],
    ['postgres://2001:db8::1/', 'a host in it is not HOST, HOST:PORT or [IPV6]:PORT'],
    ['postgres://[::1/', 'a host in it is not HOST, HOST:PORT or [IPV6]:PORT'],
    ['postgres://[::1]x/', 'a host in it is not HOST, HOST:PORT or [IPV6]:PORT'],
    ['postgres://[]/', 'the text in brackets in it is not an IPv6 address'],
    ['postgres://[127.0.0.1]/', 'the text in brackets in it is not an IPv6 address'],
    ['postgres://h /users', 'a blank in it must be written as %20'],
    ['postgres://h/users ', 'a blank in it must be written as %20'],
    ['postgres://h/users\n', 'a blank in it must be written as %20'],
    ['postgres://h/%', 'a % in it does not begin an encoded character: write % itself as %25'],
    ['postgres://h/%zz', 'a % in it does not begin an encoded character: write % itself as %25'],
    ['postgres://h/%ff', 'a % in it does not begin an encoded character: write % itself as %25'],
    ['postgres://h/a%00b', 'it has the character %00'],
    [
      'postgres://h?sslrootcert=ca.pem',
      'its sslrootcert has no effect without sslmode, and nothing would be encrypted: it may be the path of a PEM file',
    ],
    [
      'postgres://h?sslcert=c.pem&sslkey=k',
      'its sslcert has no effect without sslmode, and nothing would be encrypted: it may be the path of a PEM file',
    ],
    [
      'postgres://h?sslmode=require&sslcert=c.pem',
      'its sslcert needs sslkey or PGSSLKEY: it may be the path of a PEM file',
    ],
    [
      'postgres://h?sslmode=require&sslkey=k',
      'its sslkey needs sslcert or PGSSLCERT: it may be the path of a PEM file',
    ],
    [
      'postgres://h?sslmode=verify-ca&sslrootcert=system',
      'its sslmode is too weak for sslrootcert=system, which needs verify-full: it may be disable, require, verify-ca or verify-full',
    ],
  ])('%j is refused in one line that says why', (url, why) => {
    const problems = problemsOf(url)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toMatch(/^DATABASE_URL was "[^\n]*$/)
    expect(problems[0]?.split('", ')[1]).toBe(`but ${why}; it may be ${MAY_BE}`)
  })

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
    const problems = problemsOf(url)
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
    hosts: [
      { host: 'g', port: 6000 },
      { host: '/tmp', port: 6001 },
    ],
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
    const path = join(temporaryFolder(), '.env')
    const lines = Object.entries({ ...ALL, DATABASE_URL: 'postgres://' })
    writeFileSync(path, lines.map(([name, text]) => `${name}="${text}"\n`).join(''))
    const { config, problems, unknown } = readSettings({ PGUSER: 'ann' }, path)
    expect({ database: config.database, problems, unknown }).toEqual({
      database: { ...FROM_ALL, user: 'ann', url: 'postgres://' },
      problems: [],
      unknown: [],
    })
  })

  test('of .env are not warned of with SQLite either, and not checked', () => {
    const path = join(temporaryFolder(), '.env')
    writeFileSync(path, 'PGHOST=[\nPGSSLMODE=prefer\nPGHOSTADDR=x\n')
    expect(readSettings({}, path)).toMatchObject({ problems: [], unknown: [] })
  })

  test.each([
    [
      'PGHOST',
      'a b',
      '; it may be host names, IP addresses or folders of Unix sockets, separated by commas',
    ],
    [
      'PGPORT',
      '0',
      '; it may be a port from 1 to 65535, or one for each host, separated by commas',
    ],
    [
      'PGPORT',
      '1,2',
      ', but it has 2 ports for 1 host; it may be a port from 1 to 65535, or one for each host, separated by commas',
    ],
    [
      'PGSSLMODE',
      'prefer',
      ', but it would leave it to the server whether the connection is encrypted; it may be disable, require, verify-ca or verify-full',
    ],
    ['PGSSLMODE', 'yes', '; it may be disable, require, verify-ca or verify-full'],
    [
      'PGCONNECT_TIMEOUT',
      'soon',
      '; it may be a whole number of seconds, where 0 is the default of the service',
    ],
    ['PGHOSTADDR', '10.0.0.1', '; it may be left out only, because PGHOST also takes addresses'],
    ['PGSERVICE', 'users', '; it may be left out only, because service files are not read'],
  ])('%s=%s is refused by its own name', (name, text, rest) => {
    expect(problemsOf('postgres://', { [name]: text })).toEqual([`${name} was "${text}"${rest}`])
  })

  test('of a client certificate without its key are refused, if there is TLS', () => {
    const certificate = { PGSSLCERT: 'c.pem' }
    expect(problemsOf('postgres://', certificate)).toEqual([])
    expect(problemsOf('postgres://?sslmode=require', certificate)).toEqual([
      'PGSSLCERT was "c.pem", but it needs sslkey or PGSSLKEY; it may be the path of a PEM file',
    ])
    expect(problemsOf('postgres://?sslmode=require&sslkey=k.pem', certificate)).toEqual([])
  })

  test('that are wrong are all told, beside other settings', () => {
    const wrong = { PGPORT: 'x', PGSSLMODE: 'allow', PORT: 'http' }
    expect(problemsOf('postgres://', wrong).map(line => line.split(' ')[0])).toEqual([
      'PORT',
      'PGPORT',
      'PGSSLMODE',
    ])
  })

  test('that are nearly right are warned of in .env', () => {
    const path = join(temporaryFolder(), '.env')
    writeFileSync(path, 'PGPASWORD=x\nPGUSER=ann\n')
    expect(readSettings({ PGPASWORD: 'x', PG_HOST: 'x' }, path).unknown).toEqual([
      { name: 'PGPASWORD', source: '.env', didYouMean: 'PGPASSWORD' },
    ])
  })

  test('are not read by the library', async () => {
    const before = process.env.PGUSER
    process.env.PGUSER = 'bob'
    try {
      const { config } = await readRecordSettings({ DATABASE_URL: new URL('postgres://h/users') })
      expect(config.database).toMatchObject({
        user: SYSTEM_USER,
        hosts: [{ host: 'h', port: 5432 }],
      })
    } finally {
      if (before === undefined) delete process.env.PGUSER
      else process.env.PGUSER = before
    }
    const settings = { DATABASE_URL: 'postgres://h', PGUSER: 'bob' }
    await expect(readRecordSettings(settings)).rejects.toThrow('PGUSER is not a setting')
  })
})
