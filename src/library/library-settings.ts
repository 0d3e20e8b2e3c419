import { nearest, unknownInWords } from '../config/did-you-mean.ts'
import { FILE_VARIABLES, readSecretFiles } from '../config/setting-files.ts'
import { checkSettings, describeProblem, VARIABLES, type VariableName } from '../config/settings.ts'
import { OperatorError } from '../errors.ts'
import type { LimitsFile } from '../limits/kinds/define-limits.ts'
import { isObject } from '../platform/json.ts'

/**
 * Settings under their names in the environment, as text or as their natural type. `.env.example` explains them and has their
 * defaults. The settings of a server are missing, because the caller brings the server.
 */
export interface UserRecordsSettings {
  readonly DATABASE_URL?: string | URL | undefined
  /** A file that holds the value instead. */
  readonly DATABASE_URL_FILE?: string | undefined
  readonly CACHE_STORE?: 'memory' | 'redis' | 'none' | undefined
  readonly REDIS_URL?: string | URL | undefined
  readonly REDIS_URL_FILE?: string | undefined
  readonly REDIS_PREFIX?: string | undefined
  /** The rules of the limits themselves, instead of LIMITS_FILE. */
  readonly LIMITS?: LimitsFile | undefined
  readonly LIMITS_FILE?: string | undefined
  readonly API_KEYS?: 'off' | 'required' | false | undefined
  readonly WEBHOOKS?: 'on' | 'off' | false | undefined
  /** Names without ports, or "*". Unset allows any host, because the program around the service listens. */
  readonly ALLOWED_HOSTS?: string | readonly string[] | undefined
  readonly TRUST_PROXY?: string | number | readonly string[] | false | undefined
  /** Replaces the level of the logger that is passed. */
  readonly LOG_LEVEL?: string | undefined
  readonly CORS_ORIGINS?: string | readonly string[] | false | undefined
  /** Text such as "100kb", or a number of bytes. */
  readonly BODY_LIMIT?: string | number | undefined
  /** How long deletions stay in the feed of changes, such as "30d". */
  readonly CHANGES_RETENTION?: string | number | undefined
  readonly PASSWORD_MIN_LENGTH?: string | number | undefined
  /** A file of passwords that nobody may choose. */
  readonly PASSWORD_BLOCKLIST?: string | undefined
  readonly MAX_WAITING_WRITES?: string | number | undefined
  readonly MAX_WAITING_PASSWORDS?: string | number | undefined
}

/** All other settings: of the server that listens. The program that mounts the service has a server of its own. */
const OF_SERVER: Readonly<
  Record<Exclude<VariableName | (typeof FILE_VARIABLES)[number], keyof UserRecordsSettings>, true>
> = {
  HOST: true,
  PORT: true,
  MANAGEMENT_PORT: true,
  MANAGEMENT_HOST: true,
  MANAGEMENT_TOKEN: true,
  MANAGEMENT_TOKEN_FILE: true,
  KEEP_ALIVE_TIMEOUT: true,
  SHUTDOWN_TIMEOUT: true,
  MAX_CONNECTIONS: true,
  MAX_EVENT_LOOP_DELAY: true,
  MAX_WAITING_REQUESTS: true,
}

const HOSTS = 'ALLOWED_HOSTS'

const LISTS = [HOSTS, 'TRUST_PROXY', 'CORS_ORIGINS']

/** What `false` is as text. */
const OFF: Readonly<Record<string, string>> = {
  ...{ API_KEYS: 'off', WEBHOOKS: 'off', TRUST_PROXY: '', CORS_ORIGINS: '' },
}

const NAMES = [...Object.keys(VARIABLES), ...FILE_VARIABLES, 'LIMITS'].filter(
  name => !Object.hasOwn(OF_SERVER, name),
)

/**
 * The settings of a service that runs inside another program, and the rules that were given instead of a file. Throws
 * `OperatorError` with a line for each mistake.
 */
export async function readLibrarySettings(settings: UserRecordsSettings) {
  // As `null` or a list of a program without types.
  if (!isObject(settings)) {
    throw new OperatorError(['the settings must be an object, as { DATABASE_URL: ":memory:" }'])
  }
  const { LIMITS: rules, ...others } = settings
  const all: string[] = []
  const texts: Record<string, string | undefined> = {}
  for (const [name, value] of Object.entries(others)) {
    if (value === undefined) continue
    const why = whyNot(name, value)
    if (why === undefined) texts[name] = asText(name, value)
    else all.push(why)
  }
  const secrets = readSecretFiles(texts, 'the settings')
  const { config, problems } = checkSettings(secrets.values)
  all.push(...secrets.problems, ...problems)
  if (rules !== undefined && others.LIMITS_FILE !== undefined) {
    all.push('LIMITS and LIMITS_FILE were both given; rules come from one of them')
  }
  // Imported only if there are rules, as in `wiring/service-parts.ts`.
  const load = () => import('../limits/kinds/load-limits.ts')
  try {
    const limits = rules === undefined ? undefined : (await load()).checkLimits(rules)
    if (all.length === 0) return { config, limits }
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error
    all.push(...error.problems.map(line => `LIMITS: ${line}`))
  }
  throw new OperatorError(all)
}

function whyNot(name: string, value: unknown): string | undefined {
  if (Object.hasOwn(OF_SERVER, name)) {
    return `${name} is a setting of the server, which here belongs to the program around the service`
  }
  if (!NAMES.includes(name)) {
    return unknownInWords({ name, source: 'environment', didYouMean: nearest(name, NAMES) })
  }
  const text = asText(name, value)
  if (text === undefined || (Array.isArray(value) && !LISTS.includes(name))) {
    return `${name} must be text or a value of its kind`
  }
  // As text, both are empty, which counts as unset. Unset trusts no proxy and allows no origin, but it allows any host.
  const isWrong = Array.isArray(value) && (value.includes('') || (name === HOSTS && text === ''))
  return isWrong ? describeProblem(name as VariableName, text) : undefined
}

/** The value as the environment would hold it; `undefined` if it cannot be written as text. */
function asText(name: string, value: unknown): string | undefined {
  if (value === false) return OFF[name]
  const parts = [value].flat()
  const isPlain = (part: unknown) =>
    ['string', 'number', 'boolean'].includes(typeof part) || isUrl(part)
  return parts.every(isPlain) ? parts.join() : undefined
}

/** By its kind: test environments have classes of their own. */
function isUrl(value: unknown): boolean {
  return Object.prototype.toString.call(value) === '[object URL]'
}
