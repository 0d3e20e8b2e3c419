import { OperatorError } from '../errors.ts'
import { findUnknownSettings, type UnknownSetting } from './did-you-mean.ts'
import { readDotenv } from './env-file.ts'
import { maskCredentials } from './mask-credentials.ts'
import { POSTGRES_VARIABLES } from './postgres-parameters.ts'
import { redisUrl } from './redis-url.ts'
import type { ValueKind, Variables, WrongVariable } from './value-kind.ts'
import {
  accessToken,
  cacheStore,
  count,
  type DatabaseLocation,
  databaseUrl,
  duration,
  hostNames,
  keyPrefix,
  limitsPath,
  listenAddress,
  managementAddress,
  oneOf,
  origins,
  portNumber,
  size,
  trustedProxies,
} from './values.ts'

/** The text of each variable, by its name. */
export type Environment = Variables

/** A row of the table of settings. */
interface Setting<T = unknown, Name = string, Option = string> {
  /** The variable. */
  readonly name: Name
  readonly kind: ValueKind<T>
  /** The text that is parsed if the variable is not set. */
  readonly default?: string
  /** The value if the variable is not set and has no default; `undefined` if left out. */
  readonly unset?: false
  /** The option of `serve` that also sets it. */
  readonly option?: Option
}

/** The settings by their fields in `Config`, in the order of the README. */
const SETTINGS = {
  host: { name: 'HOST', kind: listenAddress, default: '127.0.0.1', option: '--host' },
  port: {
    name: 'PORT',
    kind: portNumber,
    default: '3000',
    option: '--port',
  },
  database: { name: 'DATABASE_URL', kind: databaseUrl, default: 'file:./data/users.db' },
  cacheStore: { name: 'CACHE_STORE', kind: cacheStore, default: 'memory' },
  /** Set if `cacheStore` is `redis`. */
  redis: { name: 'REDIS_URL', kind: redisUrl },
  redisPrefix: { name: 'REDIS_PREFIX', kind: keyPrefix, default: 'user-records:' },
  /** `undefined` without a management port. */
  managementPort: { name: 'MANAGEMENT_PORT', kind: portNumber },
  managementHost: { name: 'MANAGEMENT_HOST', kind: managementAddress, default: '127.0.0.1' },
  /** `undefined` asks operators for none, which is refused beyond loopback. */
  managementToken: { name: 'MANAGEMENT_TOKEN', kind: accessToken },
  /** Whether each request needs an API key. */
  apiKeys: { name: 'API_KEYS', kind: oneOf('off', 'required'), default: 'off' },
  /** `undefined` allows addresses and names of this machine while only it can connect, and any host otherwise. */
  allowedHosts: { name: 'ALLOWED_HOSTS', kind: hostNames },
  /** `undefined` without limits. */
  limitsFile: { name: 'LIMITS_FILE', kind: limitsPath },
  /** `false` if no proxy is trusted. */
  trustProxy: { name: 'TRUST_PROXY', kind: trustedProxies, unset: false },
  logLevel: {
    name: 'LOG_LEVEL',
    kind: oneOf('fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'),
    default: 'info',
  },
  /** `undefined` without CORS. */
  corsOrigins: { name: 'CORS_ORIGINS', kind: origins },
  bodyLimitBytes: { name: 'BODY_LIMIT', kind: size('100mb', 'such as 100kb'), default: '100kb' },
  /** In code points. */
  passwordMinChars: { name: 'PASSWORD_MIN_LENGTH', kind: count('characters', 128), default: '8' },
  shutdownTimeoutMs: {
    name: 'SHUTDOWN_TIMEOUT',
    kind: duration('1 hour', 'such as 10s or "1 minute", or a number of seconds'),
    default: '10s',
  },
  maxConnections: { name: 'MAX_CONNECTIONS', kind: count('connections'), default: '10000' },
  /** How long a request may wait for its turn. */
  maxEventLoopDelayMs: {
    name: 'MAX_EVENT_LOOP_DELAY',
    kind: duration('1 minute', 'such as 500ms'),
    default: '500ms',
  },
  maxWaitingRequests: { name: 'MAX_WAITING_REQUESTS', kind: count('requests'), default: '5000' },
  maxWaitingWrites: { name: 'MAX_WAITING_WRITES', kind: count('writes'), default: '10000' },
  /** How many passwords may wait to be hashed. */
  maxWaitingPasswords: { name: 'MAX_WAITING_PASSWORDS', kind: count('passwords'), default: '250' },
} as const satisfies Readonly<Record<string, Setting>>

/** The settings of the service, parsed and frozen. Times are in milliseconds, sizes in bytes. */
export type Config = { readonly [Field in keyof Table]: ValueOf<Table[Field]> }

type Table = typeof SETTINGS
type Row = Table[keyof Table]

type ValueOf<R extends Setting> =
  | (R extends Setting<infer T> ? T : never)
  | (R extends { default: string } ? never : R extends { unset: infer U } ? U : undefined)

/** The name of a setting in the environment. */
export type VariableName = Row['name']

type RowWithOption = Extract<Row, { option: string }>

/** Texts from the command line, by the variables that they override. */
export type SettingOptions = Readonly<Partial<Record<RowWithOption['name'], string>>>

/** A name under which an operator can give a setting: its variable or its option. */
export type SettingName = VariableName | RowWithOption['option']

type AnyRow = Setting<unknown, VariableName, RowWithOption['option']>

/** The settings by their variables, in the order of the table. */
export const VARIABLES = Object.fromEntries(
  Object.values(SETTINGS).map(row => [row.name, row]),
) as Readonly<Record<VariableName, AnyRow>>

/** The values of settings, and what is wrong with their texts. */
export interface CheckedSettings {
  /** `undefined` for each value that is wrong. */
  readonly config: { readonly [Field in keyof Config]: Config[Field] | undefined }
  /** A line for each wrong value. */
  readonly problems: readonly string[]
}

/** Settings from all sources. `problems` also has the problems of the `.env` file. */
export interface ReadSettings extends CheckedSettings {
  readonly unknown: readonly UnknownSetting[]
}

/** Reads settings as `readSettings` does. Throws `OperatorError` with a line for each problem. */
export function loadConfig(
  environment: Environment,
  dotenvPath?: string,
  onUnknown: (name: UnknownSetting) => void = () => {},
): Config {
  const { config, problems, unknown } = readSettings(environment, dotenvPath)
  for (const name of unknown) onUnknown(name)
  if (problems.length > 0) throw new OperatorError(problems)
  return config as Config
}

/**
 * Reads each setting from the first that has it: `options`, the environment, a `.env` file. An empty variable counts as
 * unset.
 */
export function readSettings(
  environment: Environment,
  dotenvPath = '.env',
  options: SettingOptions = {},
): ReadSettings {
  const dotenv = readDotenv(dotenvPath)
  const values = { ...withoutEmpty(dotenv.values), ...withoutEmpty(environment) }
  const { config, problems } = checkSettings(values, options)
  const unknown = findUnknownSettings({
    environment,
    dotenv: dotenv.values,
    settings: Object.keys(VARIABLES),
    known: [...Object.keys(VARIABLES), ...POSTGRES_VARIABLES],
  })
  return { config, problems: [...dotenv.problems, ...problems], unknown }
}

/** Parses the texts of variables. An empty one counts as unset. `options` win over `values`. */
export function checkSettings(values: Environment, options: SettingOptions = {}): CheckedSettings {
  const given: Environment = { ...withoutEmpty(values), ...options }
  const problems: string[] = []
  const parse = ({ name, kind, default: defaultText, unset }: AnyRow) => {
    const text = given[name] ?? defaultText
    if (text === undefined) return unset
    const reading = kind.read(text, given)
    if ('value' in reading) return reading.value
    problems.push(
      ...(reading.wrongVariables?.map(describeWrong) ?? [
        describeProblem(findGivenName(name, options), text, reading.why),
      ]),
    )
    return undefined
  }
  const fields = Object.entries(SETTINGS).map(([field, row]) => [field, parse(row)])
  const config: CheckedSettings['config'] = Object.fromEntries(fields)
  return { config: Object.freeze(config), problems }
}

/** The name under which the operator gave a setting: its option if that is among `options`, otherwise its variable. */
export function findGivenName(name: VariableName, options: SettingOptions): SettingName {
  return (name in options && VARIABLES[name].option) || name
}

/**
 * A line for the operator about a setting that cannot be used: its name, its value with credentials masked, `why` if the
 * value alone does not show it, and what it may be.
 */
export function describeProblem(name: SettingName, value: string, why?: string): string {
  const rows: readonly AnyRow[] = Object.values(VARIABLES)
  const { kind } = rows.find(row => row.name === name || row.option === name) as AnyRow
  return describeWrong({ name, text: kind.isSecret ? '***' : value, why, mayBe: kind.mayBe })
}

function describeWrong({ name, text, why, mayBe }: WrongVariable): string {
  const reason = why === undefined ? '' : `, but ${why}`
  return `${name} was ${quote(text)}${reason}; it may be ${mayBe}`
}

/** An option of a command that names a database as DATABASE_URL does. */
export interface DatabaseOption {
  readonly name: '--from' | '--to'
  readonly url: string
}

/** Reads such an option. The variables of libpq add what the URL leaves out. Throws `OperatorError`. */
export function readDatabaseOption(
  { name, url }: DatabaseOption,
  environment: Environment,
  dotenvPath = '.env',
): DatabaseLocation {
  const dotenv = readDotenv(dotenvPath)
  const values = { ...withoutEmpty(dotenv.values), ...withoutEmpty(environment) }
  const reading = databaseUrl.read(url, values)
  if ('value' in reading) return reading.value
  const wrong = { name, text: url, why: reading.why, mayBe: databaseUrl.mayBe }
  throw new OperatorError((reading.wrongVariables ?? [wrong]).map(describeWrong))
}

/** A line for the operator about a mistake in what a setting or an option names. */
export function describeMistake(
  name: VariableName | DatabaseOption['name'],
  value: string,
  mistake: string,
): string {
  return `${name} was ${quote(value)}: ${mistake}`
}

function quote(value: string): string {
  return JSON.stringify(maskCredentials(value))
}

function withoutEmpty(values: Environment): Environment {
  return Object.fromEntries(Object.entries(values).filter(([, text]) => text !== ''))
}
