import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import {
  type Config,
  type Environment,
  loadConfig,
  VARIABLES,
  type VariableName,
} from '../src/config.ts'
import { OperatorError } from '../src/errors.ts'
import { temporaryFolder } from './support/open-test-app.ts'

const DEFAULTS: Config = {
  host: '127.0.0.1',
  port: 3000,
  database: { url: 'file:./data/users.db', path: './data/users.db' },
  cacheStore: 'memory',
  limitsFile: undefined,
  trustProxy: false,
  logLevel: 'info',
  corsOrigins: undefined,
  bodyLimitBytes: 102_400,
  passwordMinChars: 8,
  shutdownTimeoutMs: 10_000,
  maxConnections: 10_000,
  maxEventLoopDelayMs: 500,
  maxWaitingRequests: 5000,
  maxWaitingWrites: 10_000,
  maxWaitingPasswords: 250,
}

const ENV_EXAMPLE = fileURLToPath(new URL('../.env.example', import.meta.url))

const NO_DOTENV = fileURLToPath(new URL('./no-such-folder/.env', import.meta.url))

test('loadConfig without any variable gives the defaults, frozen', () => {
  const config = loadConfig({}, NO_DOTENV)
  expect(config).toEqual(DEFAULTS)
  expect(Object.isFrozen(config)).toBe(true)
})

test.each<[VariableName, string, Partial<Config>]>([
  ['HOST', '0.0.0.0', { host: '0.0.0.0' }],
  ['HOST', '::1', { host: '::1' }],
  ['HOST', 'localhost', { host: 'localhost' }],
  ['HOST', 'users_1.internal-net.example', { host: 'users_1.internal-net.example' }],
  ['PORT', '0', { port: 0 }],
  ['PORT', '65535', { port: 65_535 }],
  ['DATABASE_URL', ':memory:', { database: { url: ':memory:', path: ':memory:' } }],
  ['DATABASE_URL', 'users.db', { database: { url: 'users.db', path: 'users.db' } }],
  [
    'DATABASE_URL',
    '/var/lib/users.db',
    { database: { url: '/var/lib/users.db', path: '/var/lib/users.db' } },
  ],
  [
    'DATABASE_URL',
    'file:var/users.db',
    { database: { url: 'file:var/users.db', path: 'var/users.db' } },
  ],
  [
    'DATABASE_URL',
    'file:/var/users.db',
    { database: { url: 'file:/var/users.db', path: '/var/users.db' } },
  ],
  [
    'DATABASE_URL',
    'file:///var/my%20users.db',
    { database: { url: 'file:///var/my%20users.db', path: '/var/my users.db' } },
  ],
  ['DATABASE_URL', 'FILE:users.db', { database: { url: 'FILE:users.db', path: 'users.db' } }],
  ['CACHE_STORE', 'memory', { cacheStore: 'memory' }],
  ['CACHE_STORE', 'none', { cacheStore: 'none' }],
  ['LIMITS_FILE', 'limits.json', { limitsFile: 'limits.json' }],
  ['LIMITS_FILE', '/etc/users/limits.mjs', { limitsFile: '/etc/users/limits.mjs' }],
  ['TRUST_PROXY', '0', { trustProxy: 0 }],
  ['TRUST_PROXY', '2', { trustProxy: 2 }],
  ['TRUST_PROXY', 'loopback', { trustProxy: ['loopback'] }],
  [
    'TRUST_PROXY',
    'linklocal, uniquelocal,10.0.0.0/8 , 192.0.2.1,2001:db8::/32',
    { trustProxy: ['linklocal', 'uniquelocal', '10.0.0.0/8', '192.0.2.1', '2001:db8::/32'] },
  ],
  ['LOG_LEVEL', 'fatal', { logLevel: 'fatal' }],
  ['LOG_LEVEL', 'error', { logLevel: 'error' }],
  ['LOG_LEVEL', 'warn', { logLevel: 'warn' }],
  ['LOG_LEVEL', 'info', { logLevel: 'info' }],
  ['LOG_LEVEL', 'debug', { logLevel: 'debug' }],
  ['LOG_LEVEL', 'trace', { logLevel: 'trace' }],
  ['LOG_LEVEL', 'silent', { logLevel: 'silent' }],
  ['CORS_ORIGINS', '*', { corsOrigins: '*' }],
  ['CORS_ORIGINS', 'https://app.example', { corsOrigins: ['https://app.example'] }],
  [
    'CORS_ORIGINS',
    'https://app.example, http://localhost:5173',
    { corsOrigins: ['https://app.example', 'http://localhost:5173'] },
  ],
  ['BODY_LIMIT', '1b', { bodyLimitBytes: 1 }],
  ['BODY_LIMIT', '2048', { bodyLimitBytes: 2048 }],
  ['BODY_LIMIT', '64 KB', { bodyLimitBytes: 65_536 }],
  ['BODY_LIMIT', '100mb', { bodyLimitBytes: 104_857_600 }],
  ['PASSWORD_MIN_LENGTH', '1', { passwordMinChars: 1 }],
  ['PASSWORD_MIN_LENGTH', '128', { passwordMinChars: 128 }],
  ['SHUTDOWN_TIMEOUT', '1ms', { shutdownTimeoutMs: 1 }],
  ['SHUTDOWN_TIMEOUT', '300ms', { shutdownTimeoutMs: 300 }],
  ['SHUTDOWN_TIMEOUT', '30', { shutdownTimeoutMs: 30_000 }],
  ['SHUTDOWN_TIMEOUT', '45s', { shutdownTimeoutMs: 45_000 }],
  ['SHUTDOWN_TIMEOUT', '1 minute', { shutdownTimeoutMs: 60_000 }],
  ['SHUTDOWN_TIMEOUT', '1 hour', { shutdownTimeoutMs: 3_600_000 }],
  ['MAX_CONNECTIONS', '1', { maxConnections: 1 }],
  ['MAX_CONNECTIONS', '1000000', { maxConnections: 1_000_000 }],
  ['MAX_EVENT_LOOP_DELAY', '1ms', { maxEventLoopDelayMs: 1 }],
  ['MAX_EVENT_LOOP_DELAY', '1 minute', { maxEventLoopDelayMs: 60_000 }],
  ['MAX_WAITING_REQUESTS', '1', { maxWaitingRequests: 1 }],
  ['MAX_WAITING_WRITES', '100', { maxWaitingWrites: 100 }],
  ['MAX_WAITING_PASSWORDS', '1000000', { maxWaitingPasswords: 1_000_000 }],
])('%s accepts %j', (name, text, parsed) => {
  expect(loadConfig({ [name]: text }, NO_DOTENV)).toEqual({ ...DEFAULTS, ...parsed })
})

describe.each<{ name: VariableName; mayBe: RegExp; refused: readonly string[] }>([
  {
    name: 'HOST',
    mayBe: /address.*host name/,
    refused: ['http://127.0.0.1', '127.0.0.1:3000', '[::1]', '-x', 'a..b', '127.0.0.1 ', 'a b'],
  },
  {
    name: 'PORT',
    mayBe: /0 to 65535/,
    refused: ['65536', '-1', '+1', '03000', '30.5', '1e3', '0x10', ' 3000', 'http', '99999999999'],
  },
  {
    name: 'DATABASE_URL',
    mayBe: /file:PATH.*:memory:/,
    refused: ['postgres://db.example/users', 'mysql://db.example', 'file:', 'file://other/x.db'],
  },
  { name: 'CACHE_STORE', mayBe: /memory or none/, refused: ['redis', 'redis://c.example', 'NONE'] },
  {
    name: 'LIMITS_FILE',
    mayBe: /\.json.*\.mjs/,
    refused: ['limits', 'limits.yaml', 'limits.json5', 'limits.ts', '0'],
  },
  {
    name: 'TRUST_PROXY',
    mayBe: /number of proxies.*comma list/,
    refused: [
      'true',
      'false',
      '-1',
      '1000',
      '1.5',
      '1,2',
      'proxy.example',
      'Loopback',
      '10.0.0.0/33',
      '2001:db8::/129',
      '10.0.0.0/',
      '10.0.0.0/8/8',
      '10.0.0.1,',
      // Express takes no range of everything.
      '0.0.0.0/0',
      '::/0',
    ],
  },
  { name: 'LOG_LEVEL', mayBe: /one of fatal, .*silent/, refused: ['verbose', 'INFO', '30'] },
  {
    name: 'CORS_ORIGINS',
    mayBe: /origins.*\*/,
    refused: [
      'https://app.example/',
      'https://app.example/path',
      'https://app.example:443',
      'https://APP.example',
      'https://*.example',
      'app.example',
      'ftp://app.example',
      'null',
      '*,https://app.example',
      'https://app.example,',
    ],
  },
  {
    name: 'BODY_LIMIT',
    mayBe: /1b to 100mb/,
    refused: ['0', '101mb', '1gb', '1.5mb', '-1', 'kb', '100 k b', '1e3', '9999999999999999'],
  },
  { name: 'PASSWORD_MIN_LENGTH', mayBe: /1 to 128/, refused: ['0', '129', '-8', '8.5', 'eight'] },
  {
    name: 'SHUTDOWN_TIMEOUT',
    mayBe: /1ms to 1 hour/,
    refused: ['0', '0s', '61 minutes', '2h', '1 day', '1.5s', '-1', 's', 'soon', '3601'],
  },
  {
    name: 'MAX_CONNECTIONS',
    mayBe: /connections from 1 to 1000000/,
    refused: ['0', '1000001', '-1', '1.5', 'many'],
  },
  {
    name: 'MAX_EVENT_LOOP_DELAY',
    mayBe: /1ms to 1 minute/,
    refused: ['0', '61s', '2 minutes', '-1', '0.5s', 'never'],
  },
  { name: 'MAX_WAITING_REQUESTS', mayBe: /from 1 to 1000000/, refused: ['0', '1000001', 'all'] },
  { name: 'MAX_WAITING_WRITES', mayBe: /from 1 to 1000000/, refused: ['0', '1000001', 'all'] },
  { name: 'MAX_WAITING_PASSWORDS', mayBe: /from 1 to 1000000/, refused: ['0', '1000001', 'all'] },
])('$name', ({ name, mayBe, refused }) => {
  test.each(refused)('%j is refused in a line that names it and what may be', text => {
    const problems = problemsOf({ [name]: text })
    expect(problems).toHaveLength(1)
    const [value, allowed] = problems[0]?.split('; it may be ') ?? []
    expect(value).toBe(`${name} was ${JSON.stringify(text)}`)
    expect(allowed).toMatch(mayBe)
  })

  test('empty counts as unset', () => {
    expect(loadConfig({ [name]: '' }, NO_DOTENV)).toEqual(DEFAULTS)
  })
})

test('loadConfig refuses several wrong values with a line for each', () => {
  const environment = { PORT: 'http', LOG_LEVEL: 'loud', BODY_LIMIT: '0', HOST: 'localhost' }
  const problems = problemsOf(environment)
  expect(problems.map(line => line.split(' ')[0])).toEqual(['PORT', 'LOG_LEVEL', 'BODY_LIMIT'])
})

test('loadConfig ignores what is no setting of the service', () => {
  const environment = { NODE_ENV: 'production', port: '1', USERS_PORT: 'x' }
  expect(loadConfig(environment, NO_DOTENV)).toEqual(DEFAULTS)
})

test('loadConfig keeps a refusal in one line, and short, whatever the value holds', () => {
  const [problem = ''] = problemsOf({ PORT: `1\n2\r\n${'9'.repeat(10_000)}` })
  expect(problem).not.toMatch(/[\r\n]/)
  expect(problem).toMatch(/^PORT was "1\\n2\\r\\n999.*; it may be a whole number/)
  expect(problem.length).toBeLessThan(500)
})

test.each<[VariableName, string, string]>([
  ['DATABASE_URL', 'postgres://user:s3cret@host/db', '"postgres://***@host/db"'],
  ['DATABASE_URL', 'postgres://user:s3@cr/et@host/db', '"postgres://***@host/db"'],
  [
    'DATABASE_URL',
    'postgres://host/db?password=s3cret&ssl=true',
    '"postgres://host/db?password=***&ssl=true"',
  ],
  [
    'DATABASE_URL',
    'postgres://host/db?user=ann&PASSWORD=s3cret',
    '"postgres://host/db?user=ann&PASSWORD=***"',
  ],
  ['DATABASE_URL', 'postgres://host/db?sslpassword=s3cret', '"postgres://host/db?sslpassword=***"'],
  ['CACHE_STORE', 'redis://:s3cret@cache:6379', '"redis://***@cache:6379"'],
  ['CORS_ORIGINS', 'https://ann:s3cret@app.example', '"https://***@app.example"'],
  ['LIMITS_FILE', 'https://x/limits?token=s3cret', '"https://x/limits?token=***"'],
  ['LIMITS_FILE', 'https://x/limits?access_token=s3cret', '"https://x/limits?access_token=***"'],
  ['LIMITS_FILE', 'https://x/limits?next=token=s3cret', '"https://x/limits?next=token=***"'],
])('%s masks the credentials of %j in its refusal', (name, text, shown) => {
  const problems = problemsOf({ [name]: text })
  expect(problems).toHaveLength(1)
  expect(problems[0]?.split('; it may be ')[0]).toBe(`${name} was ${shown}`)
})

describe('a .env file', () => {
  test('is read, with its comments and quotes', () => {
    const path = dotenv(
      '# where it listens',
      'PORT=4000',
      '',
      'SHUTDOWN_TIMEOUT="1 minute"',
      "LOG_LEVEL='warn' # less of it",
    )
    expect(loadConfig({}, path)).toEqual({
      ...DEFAULTS,
      port: 4000,
      shutdownTimeoutMs: 60_000,
      logLevel: 'warn',
    })
  })

  test('yields to the environment, variable by variable', () => {
    const path = dotenv('PORT=4000', 'HOST=0.0.0.0')
    expect(loadConfig({ PORT: '5000' }, path)).toEqual({
      ...DEFAULTS,
      port: 5000,
      host: '0.0.0.0',
    })
  })

  test('is not hidden by an empty variable of the environment', () => {
    expect(loadConfig({ PORT: '' }, dotenv('PORT=4000'))).toEqual({ ...DEFAULTS, port: 4000 })
  })

  test('may leave a variable empty, which counts as unset', () => {
    expect(loadConfig({}, dotenv('PORT=', 'TRUST_PROXY=""'))).toEqual(DEFAULTS)
  })

  test('with a wrong value is refused like the environment', () => {
    const problems = problemsOf({ LOG_LEVEL: 'loud' }, dotenv('PORT=http', 'LOG_LEVEL=info'))
    expect(problems).toEqual([
      expect.stringMatching(/^PORT was "http"; it may be /),
      expect.stringMatching(/^LOG_LEVEL was "loud"; it may be /),
    ])
  })

  test('with a wrong value that the environment overrules is not refused', () => {
    expect(loadConfig({ PORT: '5000' }, dotenv('PORT=http'))).toEqual({ ...DEFAULTS, port: 5000 })
  })

  test('that is a folder is refused by its path', () => {
    const path = join(temporaryFolder(), '.env')
    mkdirSync(path)
    const problems = problemsOf({}, path)
    expect(problems).toHaveLength(1)
    expect(problems[0]).toContain(path)
    expect(problems[0]).toMatch(/cannot be read.*it may be a file of NAME=value lines$/)
  })
})

describe('.env.example', () => {
  test('lists every variable once, with its default, and no other', () => {
    const listed = readFileSync(ENV_EXAMPLE, 'utf8')
      .split('\n')
      .flatMap(line => /^(# ?)?([A-Z_]+)=(.*)$/.exec(line)?.slice(1, 4).join('|') ?? [])
    const expected = Object.entries(VARIABLES).map(([name, { default: value }]) =>
      value === undefined ? `# |${name}|` : `|${name}|${value}`,
    )
    expect(listed.sort()).toEqual(expected.sort())
  })

  test('read as a .env file changes nothing', () => {
    expect(readFileSync(ENV_EXAMPLE, 'utf8')).toContain('PORT=3000')
    expect(loadConfig({}, ENV_EXAMPLE)).toEqual(DEFAULTS)
  })
})

function dotenv(...lines: readonly string[]): string {
  const path = join(temporaryFolder(), '.env')
  writeFileSync(path, `${lines.join('\n')}\n`)
  return path
}

/** The lines of the refusal; none where nothing is refused. */
function problemsOf(environment: Environment, dotenvPath = NO_DOTENV): readonly string[] {
  try {
    loadConfig(environment, dotenvPath)
    return []
  } catch (error) {
    if (error instanceof OperatorError) return error.problems
    throw error
  }
}
