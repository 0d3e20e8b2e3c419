import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import {
  type Config,
  type Environment,
  loadConfig,
  readSettings,
  VARIABLES,
  type VariableName,
} from '../../src/config/settings.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { NO_DOTENV, problemsOf } from '../support/problems-of.ts'

/** As `.env.example` lists them. */
const DEFAULTS = loadConfig({}, NO_DOTENV)

const ENV_EXAMPLE = fileURLToPath(new URL('../../.env.example', import.meta.url))

const NOT_PLAIN =
  'only letters, digits, blanks and any of _ - . , + ~ ( ) / may be in a path as it is: write postgres://USER:PASSWORD@HOST/DATABASE, or file: before it if it is the path of a file'

const NO_PARAMETERS =
  'a path has no parameters here: leave out ? and # and what follows them, or write them as %3F and %23 in a URL file:///…'

const MEANINGLESS = 'quotes, ~ and variables mean nothing here: write the path itself'

const LONG_TOKEN = 'x'.repeat(1000)

function fileAt(url: string, path = url): Config['database'] {
  return { kind: 'sqlite', url, path }
}

/** What is read from the lines of a `.env` file alone, beside the defaults. */
function readDotenv(text: string): Partial<Config> {
  return loadConfig({}, dotenvOf(text))
}

function dotenvOf(text: string | Buffer): string {
  const path = join(temporaryFolder(), '.env')
  writeFileSync(path, text)
  return path
}

test('loadConfig gives settings that nobody can change', () => {
  expect(Object.isFrozen(DEFAULTS)).toBe(true)
})

describe('loadConfig accepts', () => {
  const file = (url: string, path?: string) => ({ database: fileAt(url, path) })
  const ORIGINS = [
    ...['https://a.example', 'http://b:5173', 'http://b:443', 'http://[::1]:8080', 'app://-'],
    ...['capacitor://localhost', 'ionic://localhost', 'tauri://localhost', 'vscode-webview://1a'],
    'moz-extension://0b5d6a1e-6f2c-4c1e-9d3b-8a7f2e4c5d60',
  ]
  const proxies = ['linklocal', 'uniquelocal', '10.0.0.0/8', '192.0.2.1', '2001:db8::/32']

  test.each<[VariableName, string, Partial<Config>]>([
    ['HOST', '::1', { host: '::1' }],
    ['HOST', 'users_1.internal-net.example', { host: 'users_1.internal-net.example' }],
    ['PORT', '0', { port: 0 }],
    ['PORT', '65535', { port: 65_535 }],
    ['DATABASE_URL', ':memory:', file(':memory:')],
    ['DATABASE_URL', '/var/lib/users.db', file('/var/lib/users.db')],
    ['DATABASE_URL', 'file:var/users.db', file('file:var/users.db', 'var/users.db')],
    ['DATABASE_URL', 'FILE:/var/users.db', file('FILE:/var/users.db', '/var/users.db')],
    [
      'DATABASE_URL',
      'file:///a/my%20u%3F%23.db',
      file('file:///a/my%20u%3F%23.db', '/a/my u?#.db'),
    ],
    ['DATABASE_URL', 'C:\\users.db', file('C:\\users.db')],
    ['DATABASE_URL', '../Zoë, (2)/the users~1.db', file('../Zoë, (2)/the users~1.db')],
    ['DATABASE_URL', 'data//users.db', file('data//users.db')],
    ['DATABASE_URL', 'file:./~a $b.db', file('file:./~a $b.db', './~a $b.db')],
    ['DATABASE_URL', 'file:host=1 port=2.db', file('file:host=1 port=2.db', 'host=1 port=2.db')],
    ['DATABASE_URL', 'file:token=x', file('file:token=***', 'token=x')],
    ['DATABASE_URL', 'file:pg//ann:x@h', file('file:***', 'pg//ann:x@h')],
    [
      'DATABASE_URL',
      'file:///data/ann@home.db',
      file('file:///data/ann@home.db', '/data/ann@home.db'),
    ],
    ['CACHE_STORE', 'none', { cacheStore: 'none' }],
    ['REDIS_PREFIX', 'app/users_1.x-y:', { redisPrefix: 'app/users_1.x-y:' }],
    ['MANAGEMENT_PORT', '0', { managementPort: 0 }],
    ['MANAGEMENT_HOST', '0.0.0.0', { managementHost: '0.0.0.0' }],
    ['MANAGEMENT_TOKEN', 'sixteen-chars-!~', { managementToken: 'sixteen-chars-!~' }],
    ['MANAGEMENT_TOKEN', LONG_TOKEN, { managementToken: LONG_TOKEN }],
    ['API_KEYS', 'required', { apiKeys: 'required' }],
    ['ALLOWED_HOSTS', '*', { allowedHosts: '*' }],
    ['ALLOWED_HOSTS', 'A.Example., [::1],::1', { allowedHosts: ['A.Example.', '[::1]', '::1'] }],
    ['LIMITS_FILE', '/etc/users/limits.mjs', { limitsFile: '/etc/users/limits.mjs' }],
    ['TRUST_PROXY', '0', { trustProxy: 0 }],
    ['TRUST_PROXY', proxies.join(' , '), { trustProxy: proxies }],
    ...(['fatal', 'error', 'warn', 'debug', 'trace', 'silent'] as const).map(
      logLevel => ['LOG_LEVEL', logLevel, { logLevel }] as [VariableName, string, object],
    ),
    ['CORS_ORIGINS', '*', { corsOrigins: '*' }],
    ['CORS_ORIGINS', ORIGINS.join(', '), { corsOrigins: ORIGINS }],
    ...ORIGINS.map(
      origin =>
        ['CORS_ORIGINS', origin, { corsOrigins: [origin] }] as [VariableName, string, object],
    ),
    ['BODY_LIMIT', '1b', { bodyLimitBytes: 1 }],
    ['BODY_LIMIT', '2048', { bodyLimitBytes: 2048 }],
    ['BODY_LIMIT', '64 KB', { bodyLimitBytes: 65_536 }],
    ['BODY_LIMIT', '100mb', { bodyLimitBytes: 104_857_600 }],
    ['CHANGES_RETENTION', '30d', { changesRetentionMs: 30 * 86_400_000 }],
    ['KEEP_ALIVE_TIMEOUT', '1s', { keepAliveTimeoutMs: 1000 }],
    ['KEEP_ALIVE_TIMEOUT', '1 hour', { keepAliveTimeoutMs: 3_600_000 }],
    ['PASSWORD_MIN_LENGTH', '1', { passwordMinChars: 1 }],
    ['PASSWORD_MIN_LENGTH', '128', { passwordMinChars: 128 }],
    ['PASSWORD_BLOCKLIST', './a b.txt', { passwordBlocklist: './a b.txt' }],
    ['SHUTDOWN_TIMEOUT', '1ms', { shutdownTimeoutMs: 1 }],
    ['SHUTDOWN_TIMEOUT', '30', { shutdownTimeoutMs: 30_000 }],
    ['SHUTDOWN_TIMEOUT', '1 hour', { shutdownTimeoutMs: 3_600_000 }],
    ['MAX_CONNECTIONS', '1000000', { maxConnections: 1_000_000 }],
    ['MAX_EVENT_LOOP_DELAY', '500ms', { maxEventLoopDelayMs: 500 }],
    ['MAX_EVENT_LOOP_DELAY', '1 minute', { maxEventLoopDelayMs: 60_000 }],
    ['MAX_WAITING_REQUESTS', '1', { maxWaitingRequests: 1 }],
    ['MAX_WAITING_WRITES', '100', { maxWaitingWrites: 100 }],
    ['MAX_WAITING_PASSWORDS', '100', { maxWaitingPasswords: 100 }],
  ])('%s=%s', (name, text, parsed) => {
    expect(loadConfig({ [name]: text }, NO_DOTENV)).toEqual({ ...DEFAULTS, ...parsed })
  })
})

/** Texts that each setting refuses, with `|` between them, and what its refusal says that it may be. */
const REFUSED: readonly (readonly [VariableName, RegExp, string])[] = [
  ['HOST', /address.*host name/, 'http://127.0.0.1|127.0.0.1:3000|a=b|[::1]|-x|a..b|127.0.0.1 '],
  ['PORT', /0 to 65535/, '65536|-1|+1|03000|30.5|1e3|0x10| 3000|http'],
  ['DATABASE_URL', /file:PATH.*:memory:/, 'file:|file://other/x.db|sqlite:users.db'],
  [
    'DATABASE_URL',
    /^file:PATH, a path, :memory:, or postgres:\/\/USER:PASSWORD@HOST:PORT\/DATABASE$/,
    'mysql://h/users|:Memory:',
  ],
  ['CACHE_STORE', /one of memory, redis, none/, 'Redis|redis://c.example|memcached'],
  [
    'REDIS_URL',
    /redis:\/\/USER:PASSWORD@HOST:PORT\/DATABASE.*rediss:\/\/.*list of nodes/,
    'cache.example:6379|http://cache.example',
  ],
  ['REDIS_PREFIX', /up to 100 letters, digits/, `{users}:|a b|ä:|users*|${'x'.repeat(101)}`],
  ['LIMITS_FILE', /\.json.*\.mjs/, 'limits|limits.yaml|/etc/a@b.yaml|limits.ts|0'],
  // Express takes no range of everything.
  [
    'TRUST_PROXY',
    /number of proxies.*comma-separated list/,
    'true|-1|1000|1.5|1,2|proxy.example|Loopback|10.0.0.0/33|2001:db8::/129|10.0.0.0/|10.0.0.1,|0.0.0.0/0|::/0',
  ],
  ['MANAGEMENT_PORT', /0 to 65535/, '65536|on'],
  ['MANAGEMENT_HOST', /address.*host name/, '127.0.0.1:9090|*'],
  ['API_KEYS', /off or required/, 'on|true|Required|urk_x'],
  [
    'ALLOWED_HOSTS',
    /comma-separated list of host names and IP addresses without ports, or \*$/,
    'users.example:3000|[::1]:3000|[127.0.0.1]|*.example|*,users.example|https://users.example|users.example,|users..example|münchen.example',
  ],
  ['LOG_LEVEL', /one of fatal, .*silent/, 'verbose|INFO|30|%s'],
  ['BODY_LIMIT', /1b to 100mb/, '0|10%|101mb|1gb|1.5mb|-1|kb|1e3|9999999999999999'],
  ['KEEP_ALIVE_TIMEOUT', /1s to 1 hour/, '0|999ms|61 minutes|never'],
  ['PASSWORD_MIN_LENGTH', /1 to 128/, '0|129|-8|8.5|eight'],
  ['PASSWORD_BLOCKLIST', /path of a text file.*16 MiB/, 'https://pwned.example/range/|x://'],
  ['SHUTDOWN_TIMEOUT', /1ms to 1 hour/, '0|61 minutes|1 day|1.5s|-1|soon|3601'],
  ['MAX_CONNECTIONS', /connections from 1 to 1000000/, '0|1000001|1.5|many'],
  ['MAX_EVENT_LOOP_DELAY', /1ms to 1 minute/, '0|61s|never'],
  ['MAX_WAITING_REQUESTS', /from 1 to 1000000/, '0|1000001'],
  ['MAX_WAITING_WRITES', /from 100 to 1000000/, '0|99|1000001|x=1'],
  ['MAX_WAITING_PASSWORDS', /from 100 to 1000000/, '0|99|1000001'],
]

describe('wrong values:', () => {
  const rows = REFUSED.flatMap(([name, mayBe, texts]) =>
    texts.split('|').map(text => ({ name, text, mayBe })),
  )

  test.each(rows)(
    '$name=$text is refused in a line that names it and what may be',
    ({ name, text, mayBe }) => {
      const problems = problemsOf({ [name]: text })
      expect(problems).toHaveLength(1)
      const [value, allowed] = problems[0]?.split('; it may be ') ?? []
      expect(value).toBe(`${name} was ${JSON.stringify(text)}`)
      expect(allowed).toMatch(mayBe)
    },
  )

  const URL_FORM = 'postgres://ann:s3cret@h/users'
  const QUOTED = 'it is in quotes: leave them out'
  const BLANK = 'a blank stands before or after it: leave it out'
  const BEFORE_SCHEME = 'something stands before the scheme of a URL: leave it out'
  const VARIABLE = 'it is a variable that nothing has replaced: write its value'

  /** What each refusal says, and values of DATABASE_URL. */
  const SENTENCES: Readonly<Record<string, readonly string[]>> = {
    [NO_PARAMETERS]: [
      ...['file:users.db?', 'FILE:users.db#main', 'file:///var/u.db?mode=ro', 'u.db?x=y'],
      'file::memory:?cache=shared',
    ],
    [QUOTED]: [`"${URL_FORM}"`, `'./users.db'`, '":memory:"'],
    [BLANK]: [` ${URL_FORM}`, '/data/users.db '],
    [BEFORE_SCHEME]: [
      ...[`psql '${URL_FORM}'`, `DATABASE_URL=${URL_FORM}`, `/usr/bin/psql ${URL_FORM}`],
      ...['jdbc:postgresql://h/db?password=s3cret', `file:${URL_FORM}`],
    ],
    [VARIABLE]: [`\${DATABASE_URL}`, '{{ database_url }}'],
    [MEANINGLESS]: [
      ...[`"${URL_FORM}`, 'file:"/data/users.db"', '~/users.db', 'file:~ann/users.db'],
      ...['$HOME/users.db', `file:\${DATA}/users.db`],
    ],
    [NOT_PLAIN]: [
      ...['//ann:s3cret@h/users', 'postgres//ann:s3cret@h/users', 'postgres;//ann:s3cret@h/users'],
      ...['host=h user=ann password=s3cret', 'user=ann password=s3cret'],
      ...['Server=h;Port=5432;Database=users;User Id=ann;Password=s3cret;'],
      ...['Data Source = h; Password = s3cret', 'sslmode=require dbname=users password=s3cret'],
      ...['PGPASSWORD=s3cret psql -h host db', 'mydb passwd=s3cret', 'mydb,password=s3cret'],
      ...['mydb&password=s3cret', './x,token=s3cret', 'api_key=s3cret', 'AccountKey=s3cret;x=y'],
      ...['SharedAccessKey=s3cret', 'DATABASE_URL=/tmp/s3cret.db', 'app/s3cret@host'],
      ...['app/s3cret@host:1521/users', '//h/users', 'ann_1:s3cret@host/db', './a:b.db'],
      ...['data/x=1.db', '/data/ann@home.db', 'C:\\ann:s3cret@home\\users.db'],
    ],
  }

  test.each<[name: VariableName, text: string, why: string]>([
    ...Object.entries(SENTENCES).flatMap(([why, texts]) =>
      texts.map(text => ['DATABASE_URL', text, why] as [VariableName, string, string]),
    ),
    ['REDIS_URL', '"redis://:s3cret@cache"', QUOTED],
    ['PORT', `'3000'`, QUOTED],
    ['MANAGEMENT_TOKEN', '"s3cret-of-operators"', QUOTED],
    ['MANAGEMENT_TOKEN', `\${MANAGEMENT_TOKEN}`, VARIABLE],
    ['LIMITS_FILE', '$LIMITS_FILE', VARIABLE],
  ])('%s=%j is refused with a sentence that says what to write: %s', (name, text, why) => {
    const [line = '', ...others] = problemsOf({ [name]: text })
    expect(others).toEqual([])
    expect(line.split('; it may be ')).toHaveLength(2)
    expect(line).toMatch(new RegExp(`^${name} was "[^\\n]*$`))
    expect(line.split('", ')[1]?.split('; it may be ')[0]).toBe(`but ${why}`)
    expect(line).not.toContain('s3cret')
  })

  test.each([
    ...['fifteen-letters', 'x', 'x'.repeat(1001), 'a b c d e f g h i', 'sixteen-lètters!'],
    ...['sixteen-letters\n', 'postgres://ann:pass@h/a b'],
  ])('MANAGEMENT_TOKEN %j is refused in a line that does not show it', token => {
    const [line = '', ...others] = problemsOf({ MANAGEMENT_TOKEN: token })
    expect(others).toEqual([])
    expect(line).toMatch(/^MANAGEMENT_TOKEN was "\*\*\*"; it may be 16 to 1000 characters/)
    if (token.length > 1) expect(line).not.toContain(token.slice(0, 6))
  })

  test.each([
    ['https://app.example/', 'it ends with a slash: leave it out'],
    ['tauri://localhost/', 'it ends with a slash: leave it out'],
    ['https://app.example:443', 'browsers leave out the default port'],
    ['http://localhost:80', 'browsers leave out the default port'],
    ['https://*.example', 'a wildcard stands for no origins: list each, or * alone for all'],
    ['app.example', 'it has no scheme: write one before it, such as https://'],
    ['localhost:3000/', 'it has no scheme: write one before it, such as https://'],
    ['https://APP.example', 'browsers send it in lower case'],
    ['null', 'it has no scheme: write one before it, such as https://'],
    ['*', 'a wildcard stands for no origins: list each, or * alone for all'],
    ['https://', 'it ends with a slash: leave it out'],
    ['https://app.example/path', 'it is no origin'],
    ['capacitor:localhost', 'it is no origin'],
    ['', 'it is no origin'],
  ])('CORS_ORIGINS names what is wrong with %s among others', (origin, why) => {
    const problems = problemsOf({ CORS_ORIGINS: `https://a.example, ${origin}` })
    expect(problems.map(line => line.split('; it may be ')[0])).toEqual([
      `CORS_ORIGINS was "${origin}", but ${why}`,
    ])
  })

  test.each<[VariableName, string, string]>([
    ['DATABASE_URL', 'mysql://user:s3cret@host/db', '"mysql://***@host/db"'],
    ['DATABASE_URL', 'postgres:s3cret', '"postgres:***"'],
    ['DATABASE_URL', 'password:s3cret host:h', '"password:***"'],
    ['CACHE_STORE', 'redis://:s3cret@cache:6379', '"redis://***@cache:6379"'],
    ['REDIS_URL', 'tcp://:s3cret@cache:6379', '"tcp://***@cache:6379"'],
    ['REDIS_URL', 'default:s3cret', '"default:***"'],
    ['REDIS_URL', ':s3cret', '"***"'],
    ['REDIS_URL', 'redis-cli -h h -a s3cret', '"***"'],
    [
      'CORS_ORIGINS',
      'https://ann:s3cret@app.example',
      '"https://***@app.example", but it is no origin',
    ],
    ['LIMITS_FILE', 'https://x/limits?access_token=s3cret', '"https://x/limits?access_token=***"'],
    ['LIMITS_FILE', 'https://x/limits?next=token=s3cret', '"https://x/limits?next=token=***"'],
  ])('%s masks the credentials of %j in its refusal', (name, text, shown) => {
    const problems = problemsOf({ [name]: text })
    expect(problems).toHaveLength(1)
    expect(problems[0]?.split('; it may be ')[0]).toBe(`${name} was ${shown}`)
  })

  test('a refusal is one line, and a short one, whatever the value holds', () => {
    const [problem = ''] = problemsOf({ PORT: `1\n2\r\n${'9'.repeat(10_000)}` })
    expect(problem).not.toMatch(/[\r\n]/)
    expect(problem).toMatch(/^PORT was "1\\n2\\r\\n999.*; it may be a whole number/)
    expect(problem.length).toBeLessThan(500)
  })
})

test('an empty variable counts as unset, and one that is no setting is ignored', () => {
  const empty = Object.fromEntries(Object.keys(VARIABLES).map(name => [name, '']))
  const others = { NODE_ENV: 'production', port: '1', USERS_PORT: 'x' }
  expect(loadConfig({ ...empty, ...others }, NO_DOTENV)).toEqual(DEFAULTS)
})

describe('a .env file', () => {
  test.each<[string, Environment, string, Partial<Config>]>([
    ['yields', { PORT: '5000' }, 'PORT=4000\nHOST=::1\n', { port: 5000, host: '::1' }],
    ['yields, where it is wrong,', { PORT: '5000' }, 'PORT=http\n', { port: 5000 }],
    ['does not yield if that is empty', { PORT: '' }, 'PORT=4000\n', { port: 4000 }],
    ['may leave a variable empty, and yields', {}, 'PORT=\nTRUST_PROXY=""\n', {}],
  ])('%s to the environment, variable by variable', (_, environment, text, parsed) => {
    expect(loadConfig(environment, dotenvOf(text))).toEqual({ ...DEFAULTS, ...parsed })
  })

  test('that is a folder, or not UTF-8, is refused by its path', () => {
    const latin1 = dotenvOf(Buffer.from('DATABASE_URL=\xe9.db\n', 'latin1'))
    for (const [path, why] of [
      [temporaryFolder(), 'it is a folder'],
      [latin1, 'it is not UTF-8'],
    ] as const)
      expect(problemsOf({}, path)).toEqual([
        `${path} cannot be read (${why}); it must be a file of NAME=value lines`,
      ])
    const inUtf16 = dotenvOf(Buffer.from('\uFEFFPORT=4000\n', 'utf16le'))
    expect(problemsOf({}, inUtf16)).not.toEqual([])
  })
})

describe('the lines of a .env file', () => {
  test.each([
    ['a byte order mark and a comment', '\uFEFF# settings\nPORT=4000\nHOST=0.0.0.0\n'],
    ['line ends of Windows', '\uFEFFPORT=4000\r\n\r\nHOST=0.0.0.0\r\n'],
    ['no line end', 'PORT=4000\nHOST=0.0.0.0'],
    ['export', 'export PORT=4000\n  export\tHOST="0.0.0.0"\n'],
    ['blanks', '\t PORT = 4000 \n \n\t# HOST=x\nHOST\t=\t0.0.0.0\t# here\n'],
    ['quotes of each kind', `PORT='4000'\nHOST=\`0.0.0.0\` # here\nCACHE_STORE="memory"\n`],
    ['a value of blanks before another', 'TRUST_PROXY=   \nPORT=4000\nHOST=0.0.0.0\n'],
  ])('with %s lose no setting', (_, text) => {
    expect(readDotenv(text)).toEqual({ ...DEFAULTS, port: 4000, host: '0.0.0.0' })
  })

  test('may have a # in quotes, and comments behind a blank', () => {
    const text = `PASSWORD_BLOCKLIST='a#b.txt' #c#d\nPORT=4000 # e#f\nTRUST_PROXY= #g\n`
    expect(readDotenv(text)).toEqual({ ...DEFAULTS, passwordBlocklist: 'a#b.txt', port: 4000 })
  })

  test.each([
    ['a line without =', 'HOST=::1\n\nhush-hush\nPORT=4000\n', 3],
    ['a line without a name', '=hush-hush\n', 1],
    ['a name of two words', 'MY PORT=hush-hush\n', 1],
    ['YAML after line ends of Windows', '# settings\r\nPORT: hush-hush\r\n', 2],
    ['a quote that is never closed', 'HOST=::1\nPORT="4000\n', 2],
    ['a quote closed by another', `HOST="::1'\n`, 1],
    ['a # in a value', 'PORT=4000\nDATABASE_URL=./data#1/users.db\n', 2],
    ['text behind a quote', 'TRUST_PROXY="1" 0.0.0.1\n', 1],
  ])('with %s are refused by their number, not shown', (_, text, line) => {
    const path = dotenvOf(text)
    expect(problemsOf({}, path)).toEqual([
      `${path}, line ${line}: it must be NAME=value, a comment (#) or blank, with quotes around a value that has a quote or a #`,
    ])
  })

  test('that are wrong are told together with wrong values', () => {
    const problems = problemsOf({ LOG_LEVEL: 'loud' }, dotenvOf('PORT=http\nHOST\n'))
    expect(problems).toEqual([
      expect.stringMatching(/line 2: it must be NAME=value/),
      expect.stringMatching(/^PORT was "http"/),
      expect.stringMatching(/^LOG_LEVEL was "loud"/),
    ])
  })
})

describe('a secret in a file', () => {
  const fileOf = (text: string | Buffer) => {
    const path = join(temporaryFolder(), 'secret')
    writeFileSync(path, text)
    return path
  }

  test.each([
    ['MANAGEMENT_TOKEN', LONG_TOKEN, { managementToken: LONG_TOKEN }],
    ['DATABASE_URL', ':memory:', { database: { path: ':memory:' } }],
    ['REDIS_URL', 'redis://:s3cret@cache', { redis: {} }],
  ])(
    'is the value of %s, without its line end, from the environment or .env',
    (name, text, config) => {
      for (const end of ['', '\n', '\r\n']) {
        const variables = { [`${name}_FILE`]: fileOf(`${text}${end}`) }
        const dotenv = dotenvOf(`${name}_FILE=${variables[`${name}_FILE`]}\n`)
        for (const read of [readSettings(variables, NO_DOTENV), readSettings({}, dotenv)]) {
          expect(read).toMatchObject({ config, problems: [], unknown: [] })
        }
      }
    },
  )

  test('that the environment names wins over .env, in either form there', () => {
    const variables = { MANAGEMENT_TOKEN_FILE: fileOf(LONG_TOKEN) }
    const other = 'x'.repeat(20)
    for (const dotenv of [`MANAGEMENT_TOKEN=${other}`, `MANAGEMENT_TOKEN_FILE=${fileOf(other)}`]) {
      const { config } = readSettings(variables, dotenvOf(dotenv))
      expect(config.managementToken).toBe(LONG_TOKEN)
    }
    for (const path of [fileOf(other), '/nowhere/token']) {
      const read = readSettings(
        { MANAGEMENT_TOKEN: LONG_TOKEN, DATABASE_URL_FILE: '' },
        dotenvOf(`MANAGEMENT_TOKEN_FILE=${path}`),
      )
      expect([read.config.managementToken, read.problems]).toEqual([LONG_TOKEN, []])
    }
  })

  test('that cannot be used stops the start with a line that does not show it', () => {
    const token = fileOf(LONG_TOKEN)
    const both = 'MANAGEMENT_TOKEN is set in the environment too: leave one of them out'
    for (const [path, why, MANAGEMENT_TOKEN = ''] of [
      [fileOf('\n'), 'the file is empty'],
      [fileOf(`${LONG_TOKEN}\r\n${LONG_TOKEN}\n`), 'the file has several lines'],
      [fileOf(Buffer.of(0xff)), 'it cannot be read (it is not UTF-8)'],
      ['/nowhere/token', 'it cannot be read (there is no such file)'],
      [token, both, LONG_TOKEN],
    ])
      expect(problemsOf({ MANAGEMENT_TOKEN, MANAGEMENT_TOKEN_FILE: path })).toEqual([
        `MANAGEMENT_TOKEN_FILE was "${path}", but ${why}; it may be the path of a file that holds the value`,
      ])
    const dotenv = dotenvOf(`MANAGEMENT_TOKEN=${LONG_TOKEN}\nMANAGEMENT_TOKEN_FILE=${token}\n`)
    expect(problemsOf({}, dotenv)).toHaveLength(1)
    const [short = ''] = problemsOf({ MANAGEMENT_TOKEN_FILE: fileOf('s3cret') })
    expect(short).toMatch(/^MANAGEMENT_TOKEN was "\*\*\*"; it may be 16 to 1000 characters/)
  })
})

/** Names that stand in environments, near ours as they are. */
const ORDINARY_NAMES = `PORTABLE HOSTNAME HOSTTYPE HOSTS PORTS PORT_ HOST_IP SPORT GHOST LOGNAME
  DATABASE_USER DATABASE_NAME DATABASE_HOST DATABASE_PORT DATABASE_PASSWORD LOG_FILE LOG_DIR CACHE_DIR
  CACHE_HOME CACHE_SIZE REDIS_PORT REDIS_TLS_URL npm_config_cache npm_package_name npm_lifecycle_event
  NODE_ENV NODE_OPTIONS PATH HOME PWD SHELL TERM USER LANG TMPDIR API_KEY APP_KEY _ KUBERNETES_PORT
  KUBERNETES_SERVICE_HOST DOCKER_HOST http_proxy NO_PROXY DATABASEURLS DTAABASE_ULR`.split(/\s+/)

describe('readSettings reports names that set nothing:', () => {
  const unknownIn = (environment: Environment, path = NO_DOTENV) =>
    readSettings(environment, path).unknown

  test.each([
    ['DATABASE_URL', ['DATABASE_ULR', 'ATABASE_URL', 'XDATABASE_URL', 'DATABASE_URI']],
    ['LOG_LEVEL', ['LOGLEVEL', 'log_level', 'LOG_LEVELS', 'LGO_LEVEL']],
    ['CORS_ORIGINS', ['CORS_ORIGIN']],
  ])('those of the environment that are one letter away from %s: %j', (didYouMean, names) => {
    for (const name of names) {
      expect(unknownIn({ [name]: 'x' })).toEqual([{ name, source: 'environment', didYouMean }])
      expect(unknownIn({ [name]: '' })).toEqual([])
    }
  })

  test.each(['API_KEY', 'APIKEYS', 'API_KYES'])(
    '%s=required in the environment, and no other value, which is the key of another program',
    name => {
      const meant = { name, source: 'environment', didYouMean: 'API_KEYS' }
      expect(unknownIn({ [name]: 'required' })).toEqual([meant])
      expect(unknownIn({ [name]: 'sk-1234' })).toEqual([])
    },
  )

  test('none of the ordinary ones of an environment', () => {
    const environment = Object.fromEntries(ORDINARY_NAMES.map(name => [name, 'x']))
    expect(unknownIn({ ...process.env, ...environment, PORT: '1', LOG_LEVEL: 'info' })).toEqual([])
  })

  test('every one of a .env file', () => {
    const names = {
      ...{ NODE_ENV: undefined, BODY_LIMITS: 'BODY_LIMIT', PROT: 'PORT', PORTABLE: undefined },
      ...{ ['__proto__']: undefined, constructor: undefined, toString: undefined },
    }
    const text = Object.keys(names).map(name => `${name}=1mb\n`)
    const expected = Object.entries(names).map(([name, didYouMean]) => ({
      ...{ name, source: '.env', didYouMean },
    }))
    expect(unknownIn({}, dotenvOf(`PORT=4000\n${text.join('')}`))).toEqual(expected)
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
