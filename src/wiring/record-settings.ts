import { nearest, unknownInWords } from '../config/did-you-mean.ts'
import { type Config, checkSettings, VARIABLES } from '../config/settings.ts'
import { OperatorError } from '../errors.ts'
import type { CheckedLimits } from '../limits/rules/compiled-rules.ts'
import type { LimitsFile } from '../limits/rules/limits-file.ts'

/**
 * Settings under their names in the environment, as text or as their natural type. `.env.example` explains them and has their
 * defaults. The settings of a server are missing, because the caller brings the server.
 */
export interface UserRecordsSettings {
  readonly DATABASE_URL?: string | URL | undefined
  readonly CACHE_STORE?: 'memory' | 'redis' | 'none' | undefined
  readonly REDIS_URL?: string | URL | undefined
  readonly REDIS_PREFIX?: string | undefined
  /** The rules of the limits themselves, instead of LIMITS_FILE. */
  readonly LIMITS?: LimitsFile | undefined
  readonly LIMITS_FILE?: string | undefined
  readonly API_KEYS?: 'off' | 'required' | undefined
  /** Names without ports, or "*". Unset allows any host, because the program around the service listens. */
  readonly ALLOWED_HOSTS?: string | readonly string[] | undefined
  readonly TRUST_PROXY?: string | number | readonly string[] | false | undefined
  /** Replaces the level of the logger that is passed. */
  readonly LOG_LEVEL?: string | undefined
  readonly CORS_ORIGINS?: string | readonly string[] | undefined
  /** Text such as "100kb", or a number of bytes. */
  readonly BODY_LIMIT?: string | number | undefined
  readonly PASSWORD_MIN_LENGTH?: string | number | undefined
  readonly MAX_WAITING_WRITES?: string | number | undefined
  readonly MAX_WAITING_PASSWORDS?: string | number | undefined
}

/** Settings of the server that listens. The program that mounts the service has a server of its own. */
const OF_SERVER: readonly string[] = [
  'HOST',
  'PORT',
  'MANAGEMENT_PORT',
  'MANAGEMENT_HOST',
  'MANAGEMENT_TOKEN',
  'SHUTDOWN_TIMEOUT',
  'MAX_CONNECTIONS',
  'MAX_EVENT_LOOP_DELAY',
  'MAX_WAITING_REQUESTS',
]

const NAMES = [...Object.keys(VARIABLES), 'LIMITS'].filter(name => !OF_SERVER.includes(name))

export interface RecordSettings {
  readonly config: Config
  /** The rules that were given instead of a file. */
  readonly limits: CheckedLimits | undefined
}

/** The settings of a service that runs inside another program. Throws `OperatorError` with a line for each mistake. */
export async function readRecordSettings(settings: UserRecordsSettings): Promise<RecordSettings> {
  const { LIMITS: rules, ...others } = settings
  const problems: string[] = []
  const values: Record<string, string> = {}
  for (const [name, value] of Object.entries(others)) {
    if (value === undefined) continue
    const text = asText(value)
    if (!NAMES.includes(name)) problems.push(whyNot(name))
    else if (text === undefined) problems.push(`${name} must be text or a value of its kind`)
    else values[name] = text
  }
  const { config, problems: wrongValues } = checkSettings(values)
  problems.push(...wrongValues)
  const limits = rules === undefined ? undefined : await checkRules(rules)
  if (limits !== undefined && values.LIMITS_FILE !== undefined) {
    problems.push('LIMITS and LIMITS_FILE were both given; rules come from one of them')
  }
  if (limits !== undefined && 'mistakes' in limits) {
    problems.push(...limits.mistakes.map(mistake => `LIMITS: ${mistake}`))
  }
  if (problems.length > 0) throw new OperatorError(problems)
  return {
    config: config as Config,
    limits: limits && 'limits' in limits ? limits.limits : undefined,
  }
}

async function checkRules(rules: LimitsFile) {
  // Imported only if there are rules, as in `openApp`.
  const { checkLimits } = await import('../limits/rules/checked-limits.ts')
  return checkLimits(rules)
}

/** The text that the environment would hold; `undefined` if no text stands for this value. */
function asText(value: unknown): string | undefined {
  if (value === false) return ''
  if (Array.isArray(value)) return value.every(isPlain) ? value.join(',') : undefined
  return isPlain(value) ? String(value) : undefined
}

function isPlain(value: unknown): boolean {
  return ['string', 'number', 'boolean'].includes(typeof value) || value instanceof URL
}

function whyNot(name: string): string {
  if (OF_SERVER.includes(name)) {
    return `${name} is a setting of the server, which here belongs to the program around the service`
  }
  return unknownInWords({ name, source: 'environment', didYouMean: nearest(name, NAMES) })
}
