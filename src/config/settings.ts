import { isIP } from 'node:net'
import { fileURLToPath } from 'node:url'
import { OperatorError } from '../errors.ts'
import { findUnknownSettings, type UnknownSetting } from './did-you-mean.ts'
import { isPostgresUrl, locatePostgres, POSTGRES_VARIABLES } from './postgres-url.ts'
import { redisUrl } from './redis-url.ts'
import { FILE_VARIABLES, readEnvFile, readSecretFiles } from './setting-files.ts'
import { maskCredentials } from './url-parts.ts'
import * as values from './values.ts'

export type Environment = values.Environment

/** Where the database is, by the kind of its engine. */
export type DatabaseLocation = NonNullable<ReturnType<typeof locateDatabase>>

/** Not checked against the disk or the network: opening it does that. */
const databaseUrl: values.ValueKind<DatabaseLocation> = {
  mayBe: 'file:PATH, a path, :memory:, or postgres://USER:PASSWORD@HOST:PORT/DATABASE',
  mayHoldPassword: true,
  read: locateDatabase,
}

/** Texts that were meant for something else, and would become files, perhaps with a password in their names. */
const NO_FILES: readonly (readonly [form: RegExp, why: string])[] = [
  // better-sqlite3 would trim the path and open another file.
  [/^\s|\s$/, 'a blank stands before or after it: leave it out'],
  [/^(?:file:)?["'`~${]/i, 'quotes, ~ and variables mean nothing here: write the path itself'],
  [
    /^(?![a-z][a-z\d+.-]*:\/\/).*:\/\//is,
    'something stands before the scheme of a URL: leave it out',
  ],
  [
    /^(?:file:[^?#]*|[^?#:=@]*)[?#]/is,
    'a path has no parameters here: leave out ? and # and what follows them, or write them as %3F and %23 in a URL file:///…',
  ],
  // The characters that no other form of a setting has. A path may begin with a drive.
  [
    /^(?!:memory:$|file:|[a-z][a-z\d+.-]+:|(?!\/\/)(?:[a-z]:(?=[\\/]))?[\p{L}\p{M}\p{N} _.,+~()/\\-]*$)/iu,
    'only letters, digits, blanks and any of _ - . , + ~ ( ) / may be in a path as it is: write postgres://USER:PASSWORD@HOST/DATABASE, or file: before it if it is the path of a file',
  ],
]

function locateDatabase(url: string, variables: Environment, refuse: values.Refuse) {
  if (isPostgresUrl(url)) return locatePostgres(url, variables, refuse)
  const [, why] = NO_FILES.find(([form]) => form.test(url)) ?? []
  const path = why === undefined ? filePathOf(url) : undefined
  if (path === undefined || /^$|\0/.test(path)) return refuse({ why })
  /** `url` is the text of the setting without credentials, `path` one of the file system, or `:memory:`. */
  return { kind: 'sqlite', url: maskCredentials(url), path } as const
}

function filePathOf(url: string): string | undefined {
  if (url === ':memory:') return url
  // An unknown scheme or a host would name a file. A single letter is a drive of Windows.
  if (/^(?!file:)[^/\\]{2,}:/i.test(url)) return undefined
  try {
    return /^[a-z]+:\/\//i.test(url) ? fileURLToPath(url) : url.replace(/^file:/i, '')
  } catch {
    // Not the URL of a local file, such as one with a host.
    return undefined
  }
}

/** The settings by their fields in `Config`, in the order of docs/operations/settings.md. */
const SETTINGS = {
  host: ['HOST', values.listenAddress, '127.0.0.1'],
  port: ['PORT', values.portNumber, '3000'],
  database: ['DATABASE_URL', databaseUrl, 'file:./data/users.db'],
  cacheStore: ['CACHE_STORE', values.oneOf('memory', 'redis', 'none'), 'memory'],
  /** Set if `cacheStore` is `redis`. */
  redis: ['REDIS_URL', redisUrl],
  /** Braces would put all keys on one node of a Cluster. */
  redisPrefix: [
    'REDIS_PREFIX',
    values.matching(
      /^[\w.:/-]{1,100}$/,
      'up to 100 letters, digits and any of . _ - : / that keys in Redis begin with',
    ),
    'user-records:',
  ],
  /** `undefined` without a management port. */
  managementPort: ['MANAGEMENT_PORT', values.portNumber],
  managementHost: ['MANAGEMENT_HOST', values.listenAddress, '127.0.0.1'],
  /** `undefined` asks operators for none, which is refused beyond loopback. It can stand in a header as it is. */
  managementToken: [
    'MANAGEMENT_TOKEN',
    {
      ...values.matching(
        /^[!-~]{16,1000}$/,
        '16 to 1000 characters of ASCII that can be seen, such as the output of: openssl rand -hex 32',
      ),
      isSecret: true,
    },
  ],
  /** Whether each request needs an API key. */
  apiKeys: ['API_KEYS', values.oneOf('off', 'required'), 'off'],
  webhooks: ['WEBHOOKS', values.oneOf('on', 'off'), 'on'],
  /** `undefined` allows addresses and names of this machine while only it can connect, and any host otherwise. */
  allowedHosts: ['ALLOWED_HOSTS', values.hostNames],
  /** `undefined` without limits. The extension decides how the file is read. */
  limitsFile: [
    'LIMITS_FILE',
    values.matching(
      /^(?!.*:\/\/).*\.(?:json|m?js)$/,
      'the path of a .json file or an ES module (.js, .mjs) with the rules of the limits',
    ),
  ],
  /** `false` if no proxy is trusted. */
  trustProxy: ['TRUST_PROXY', values.trustedProxies, false],
  logLevel: [
    'LOG_LEVEL',
    values.oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    'info',
  ],
  /** `undefined` without CORS. */
  corsOrigins: ['CORS_ORIGINS', values.origins],
  bodyLimitBytes: ['BODY_LIMIT', values.size('100mb', 'such as 100kb'), '100kb'],
  /** How long an idle connection stays open. */
  keepAliveTimeoutMs: [
    'KEEP_ALIVE_TIMEOUT',
    values.duration('1 hour', 'such as 65s, longer than the proxy in front keeps it', '1s'),
    '65s',
  ],
  changesRetentionMs: [
    'CHANGES_RETENTION',
    values.duration('3650 days', 'such as 30d', '1 hour'),
    '30d',
  ],
  /** In code points. */
  passwordMinChars: ['PASSWORD_MIN_LENGTH', values.count('characters', { max: 128 }), '8'],
  /** `undefined` without a list. Relative to the working directory. */
  passwordBlocklist: [
    'PASSWORD_BLOCKLIST',
    values.matching(
      /^(?!.*:\/\/)[^\0]+$/s,
      'the path of a text file: SHA-1 of passwords in ascending order, or one password a line, up to 16 MiB',
    ),
  ],
  shutdownTimeoutMs: [
    'SHUTDOWN_TIMEOUT',
    values.duration('1 hour', 'such as 10s or "1 minute", or a number of seconds'),
    '10s',
  ],
  maxConnections: ['MAX_CONNECTIONS', values.count('connections'), '10000'],
  /** How long a request may wait for its turn. */
  maxEventLoopDelayMs: [
    'MAX_EVENT_LOOP_DELAY',
    values.duration('1 minute', 'such as 500ms'),
    '500ms',
  ],
  maxWaitingRequests: ['MAX_WAITING_REQUESTS', values.count('requests'), '5000'],
  // At least as many as the users of one request: it would be refused for ever.
  maxWaitingWrites: ['MAX_WAITING_WRITES', values.count('writes', { min: 100 }), '10000'],
  /** How many passwords may wait to be hashed. */
  maxWaitingPasswords: ['MAX_WAITING_PASSWORDS', values.count('passwords', { min: 100 }), '250'],
} as const satisfies Readonly<Record<string, Setting>>

/** The variable, the kind of its value, and its default: a text to parse, or `false` as it is. */
type Setting = readonly [name: string, kind: values.ValueKind<unknown>, unset?: string | false]

/** The settings of the service, parsed and frozen. Times are in milliseconds, sizes in bytes. */
export type Config = {
  readonly [Field in keyof typeof SETTINGS]:
    | ((typeof SETTINGS)[Field][1] extends values.ValueKind<infer T> ? T : never)
    | ((typeof SETTINGS)[Field] extends { 2: infer Unset } ? Exclude<Unset, string> : undefined)
}

/** The name of a setting in the environment. */
export type VariableName = (typeof SETTINGS)[keyof Config][0]

/** The kind and the default of each setting, in the order of the table. */
export const VARIABLES = Object.fromEntries(
  Object.values<Setting>(SETTINGS).map(([name, kind, unset]) => [
    name,
    { kind, default: unset || undefined },
  ]),
) as Readonly<Record<VariableName, { kind: values.ValueKind<unknown>; default?: string }>>

/** Reads settings as `readSettings` does. Throws `OperatorError` with a line for each problem. */
export function loadConfig(
  environment: Environment,
  dotenvPath?: string,
  onUnknown: (name: UnknownSetting) => void = () => {},
): Config {
  const { config, problems, unknown } = readSettings(environment, dotenvPath)
  unknown.forEach(onUnknown)
  if (problems.length > 0) throw new OperatorError(problems)
  return config
}

/**
 * Reads each setting from the environment, otherwise from a `.env` file; secrets also from files that these name. An empty variable counts as unset. `problems` has a
 * line for each wrong value or line of the file; without any, `config` is complete.
 */
export function readSettings(environment: Environment, path = '.env') {
  const dotenv = readEnvFile(path)
  const places = [
    readSecretFiles(dotenv.values, path, environment),
    readSecretFiles(environment, 'the environment'),
  ]
  const { config, problems } = checkSettings(merge(...places.map(({ values }) => values)))
  const known = [...Object.keys(VARIABLES), ...FILE_VARIABLES, ...POSTGRES_VARIABLES]
  const unknown = findUnknownSettings(environment, dotenv.values, known)
  const ofFiles = places.flatMap(place => place.problems)
  return { config, problems: [...dotenv.problems, ...ofFiles, ...problems], unknown }
}

/** Parses the texts of variables. An empty one counts as unset. */
export function checkSettings(texts: Environment) {
  const given: Environment = merge(texts)
  const problems: string[] = []
  const read = ([name, kind, unset]: Setting): unknown => {
    const text = given[name] ?? unset
    if (text === undefined || text === false) return text
    return readText(kind, { name, text }, given, problems)
  }
  const fields = Object.entries(SETTINGS).map(([field, row]) => [field, read(row)])
  const config: Config = Object.fromEntries(fields)
  if (config.cacheStore === 'redis' && given.REDIS_URL === undefined) {
    problems.push(describeProblem('CACHE_STORE', 'redis', 'REDIS_URL, which it needs, is not set'))
  }
  const { managementHost: host } = config
  // Which address a host name has is known only once the port is open.
  const isOpen = given.MANAGEMENT_PORT !== undefined && isIP(host) !== 0 && !values.isLoopback(host)
  if (isOpen && given.MANAGEMENT_TOKEN === undefined) {
    problems.push(describeProblem('MANAGEMENT_HOST', host, NEEDS_TOKEN))
  }
  return { config: Object.freeze(config), problems }
}

/** Texts that a program has passed on as they are written for another one, such as `docker --env-file` those for a shell. */
const NO_VALUES: readonly (readonly [form: RegExp, why: string])[] = [
  [/^(["'`]).*\1$/s, 'it is in quotes: leave them out'],
  [/^(?:\$\w+|\$?\{.*\})$/s, 'it is a variable that nothing has replaced: write its value'],
]

/** The value of a text. If it is wrong, `problems` gets a line for each mistake. */
function readText<T>(
  kind: values.ValueKind<T>,
  given: { readonly name: string; readonly text: string },
  variables: Environment,
  problems: string[],
): T | undefined {
  const shown = kind.isSecret ? '***' : maskCredentials(given.text, kind.mayHoldPassword)
  const { name, text } = given
  const before = problems.length
  const refuse: values.Refuse = mistake =>
    void problems.push(describe({ name, text: shown, mayBe: kind.mayBe, ...mistake }))
  const [, why] = NO_VALUES.find(([form]) => form.test(text)) ?? []
  const value = why === undefined ? kind.read(text, variables, refuse) : refuse({ why })
  if (value === undefined && problems.length === before) refuse({})
  return value
}

/** Why a management port is refused. */
export const NEEDS_TOKEN = 'MANAGEMENT_TOKEN, which it needs beyond loopback, is not set'

/**
 * A line for the operator about a setting that cannot be used: its name, its value without credentials, `why` if the value
 * alone does not show it, and what it may be.
 */
export function describeProblem(name: VariableName, text: string, why?: string): string {
  return describe({ name, text, why, mayBe: VARIABLES[name].kind.mayBe })
}

function describe({ name, text, why, mayBe }: values.Mistake): string {
  const reason = why === undefined ? '' : `, but ${why}`
  return `${name} was ${quote(text)}${reason}; it may be ${mayBe}`
}

/** A line for the operator about a mistake in what a setting or an option names. */
export function describeMistake(name: string, text: string, mistake: string): string {
  return `${name} was ${quote(text)}: ${mistake}`
}

/**
 * Reads an option that names a database as DATABASE_URL does. The variables of libpq add what the URL leaves out. Throws
 * `OperatorError`.
 */
export function readDatabaseOption(name: string, url: string, environment: Environment) {
  const variables = merge(readEnvFile('.env').values, environment)
  const problems: string[] = []
  const location = readText(databaseUrl, { name, text: url }, variables, problems)
  if (location === undefined) throw new OperatorError(problems)
  return location
}

/** The variables that are not empty. The later ones win. */
function merge(...sources: readonly Environment[]): Environment {
  const entries = sources.flatMap(Object.entries<string | undefined>)
  return Object.fromEntries(entries.filter(([, text]) => text !== ''))
}

function quote(given: string): string {
  const text = maskCredentials(given)
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}…` : text)
}
