import express, { type Application } from 'express'
import pino, { type Logger } from 'pino'
import { nearest, unknownInWords } from './config/did-you-mean.ts'
import {
  type Config,
  checkSettings,
  describeProblem,
  VARIABLES,
  type VariableName,
} from './config/settings.ts'
import { OperatorError } from './errors.ts'
import type { CheckedLimits } from './limits/kinds/kinds.ts'
import type { LimitsFile } from './limits/rules/limits-file.ts'
import { isInMemory } from './open-database.ts'
import { openApp } from './service.ts'
import { performance } from './timers.ts'

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
  readonly WEBHOOKS?: 'on' | 'off' | undefined
  /** Names without ports, or "*". Unset allows any host, because the program around the service listens. */
  readonly ALLOWED_HOSTS?: string | readonly string[] | undefined
  readonly TRUST_PROXY?: string | number | readonly string[] | false | undefined
  /** Replaces the level of the logger that is passed. */
  readonly LOG_LEVEL?: string | undefined
  readonly CORS_ORIGINS?: string | readonly string[] | undefined
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

/** The service inside another program. */
export interface UserRecords {
  /** For supertest, for `createServer` of `node:http`, or to mount: `parent.use('/api', app)`. */
  readonly app: Application
  /**
   * Empties a database in memory and deletes all counters and bans. The next user gets the id 1 again.
   * Rejects if the database is a file or `close` was called.
   */
  reset(): Promise<void>
  /** Finishes the waiting writes and closes the database. Later requests get 503. May be called twice. */
  close(): Promise<void>
}

/** The service without a server, for another program. Rejects with `OperatorError` if it cannot be opened. */
export async function openRecords(
  settings: UserRecordsSettings,
  logger?: Logger,
): Promise<UserRecords> {
  const read = await readRecordSettings(settings)
  const log = loggerOf(settings, logger)
  let closed: Promise<void> | undefined
  const isClosed = () => closed !== undefined
  const stopping = { hasBegun: isClosed, begin: new Promise<void>(() => {}) }
  const open = () => openApp({ ...read, log, stopping })
  let records = await open()
  let resetting = Promise.resolve()

  const app = express()
  app.disable('x-powered-by')
  app.use((request, response) => {
    request.arrival = { at: performance.now(), isTooLate: isClosed() }
    // The outer application sets it, unless it has disabled that.
    response.removeHeader('X-Powered-By')
    // No `onLateRequest` here: the server of another program does not report late requests, so every request may be one.
    records.readAnew()
    records.app(request, response)
  })

  async function replace(): Promise<void> {
    // `close` waits for this, and there is nobody left to empty it for.
    if (isClosed()) return
    const previous = records
    records = await open()
    await previous.close()
  }

  return {
    app,

    reset: () => {
      if (!isInMemory(read.config)) {
        const { url } = read.config.database
        const why = `reset() empties databases in memory only, and not ${url}`
        return Promise.reject(new Error(why))
      }
      if (isClosed()) return Promise.reject(new Error('reset() was called after close()'))
      const done = resetting.then(replace)
      resetting = done.catch(() => {})
      return done
    },

    close: () => {
      closed ??= resetting.then(() => records.close())
      return closed
    },
  }
}

function loggerOf({ LOG_LEVEL: level }: UserRecordsSettings, logger: Logger | undefined): Logger {
  // Without a stream of its own, pino would open standard output and watch the end of the process.
  if (logger === undefined) return pino({ level: 'silent' }, { write: () => {} })
  return level === undefined ? logger : logger.child({}, { level })
}

/** Settings of the server that listens. The program that mounts the service has a server of its own. */
const OF_SERVER =
  /^(?:HOST|PORT|MANAGEMENT_\w+|(?:KEEP_ALIVE|SHUTDOWN)_TIMEOUT|MAX_(?:CONNECTIONS|EVENT_LOOP_DELAY|WAITING_REQUESTS))$/

const HOSTS = 'ALLOWED_HOSTS'

const LISTS = [HOSTS, 'TRUST_PROXY', 'CORS_ORIGINS']

const NAMES = [...Object.keys(VARIABLES), 'LIMITS'].filter(name => !OF_SERVER.test(name))

export interface RecordSettings {
  readonly config: Config
  /** The rules that were given instead of a file. */
  readonly limits: CheckedLimits | undefined
}

/** The settings of a service that runs inside another program. Throws `OperatorError` with a line for each mistake. */
export async function readRecordSettings(settings: UserRecordsSettings): Promise<RecordSettings> {
  const { LIMITS: rules, ...others } = settings
  const all: string[] = []
  const texts: Record<string, string | undefined> = {}
  for (const [name, value] of Object.entries(others)) {
    if (value === undefined) continue
    const why = whyNot(name, value)
    if (why === undefined) texts[name] = asText(value)
    else all.push(why)
  }
  const { config, problems } = checkSettings(texts)
  all.push(...problems)
  if (rules !== undefined && others.LIMITS_FILE !== undefined) {
    all.push('LIMITS and LIMITS_FILE were both given; rules come from one of them')
  }
  // Imported only if there are rules, as in `service.ts`.
  const checked =
    rules === undefined
      ? undefined
      : (await import('./limits/kinds/checked-limits.ts')).checkLimits(rules)
  if (checked && 'mistakes' in checked) all.push(...checked.mistakes.map(line => `LIMITS: ${line}`))
  if (all.length > 0) throw new OperatorError(all)
  return { config, limits: checked && 'limits' in checked ? checked.limits : undefined }
}

function whyNot(name: string, value: unknown): string | undefined {
  if (OF_SERVER.test(name)) {
    return `${name} is a setting of the server, which here belongs to the program around the service`
  }
  if (!NAMES.includes(name)) {
    return unknownInWords({ name, source: 'environment', didYouMean: nearest(name, NAMES) })
  }
  const text = asText(value)
  if (text === undefined || (Array.isArray(value) && !LISTS.includes(name))) {
    return `${name} must be text or a value of its kind`
  }
  // As text, both are empty, which counts as unset. Unset trusts no proxy and allows no origin, but it allows any host.
  const isWrong = Array.isArray(value) && (value.includes('') || (name === HOSTS && text === ''))
  return isWrong ? describeProblem(name as VariableName, text) : undefined
}

/** The value as the environment would hold it; `undefined` if it cannot be written as text. */
function asText(value: unknown): string | undefined {
  const parts = [value].flat()
  const isPlain = (part: unknown) =>
    ['string', 'number', 'boolean'].includes(typeof part) || isUrl(part)
  return parts.every(isPlain) ? (value === false ? '' : parts.join()) : undefined
}

/** By its kind: test environments have classes of their own. */
function isUrl(value: unknown): boolean {
  return Object.prototype.toString.call(value) === '[object URL]'
}
