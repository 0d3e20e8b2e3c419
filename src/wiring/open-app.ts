import type { Application } from 'express'
import type { Logger } from 'pino'
import { type AppDependencies, createApp } from '../app.ts'
import type { Config } from '../config/settings.ts'
import { createRequestMetrics, type RequestMetrics } from '../http/request-metrics.ts'
import { type BanControl, createControlWithoutRules } from '../limits/ban-control.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { LimitsTrace } from '../limits/limits-trace.ts'
import { createRuleLines } from '../limits/rule-lines.ts'
import type { LimitsReport } from '../limits/rule-report.ts'
import { type CheckedLimits, NO_LIMITS } from '../limits/rules/compiled-rules.ts'
import type { ReloadResult } from '../ops/management/operations.ts'
import type { Storage } from '../storage/storage.ts'
import { createCursors } from '../users/cursor.ts'
import { createPasswordVerifications } from '../users/password-verifications.ts'
import { createPasswordHasher } from '../users/passwords/hasher.ts'
import { createUserRules } from '../users/user-schemas.ts'
import { createUserService } from '../users/user-service.ts'
import { blameSetting } from './blame-setting.ts'
import { type Clocks, createClocks } from './clocks.ts'
import { logIndexing } from './log-indexing.ts'
import { openKeys } from './open-keys.ts'
import { isInMemory, openStorage } from './open-storage.ts'
import { type AppReport, openProcessReporter } from './process-reporter.ts'
import { writeRefusedHost } from './refused-hosts.ts'

/** The Express application with its storage open, for any server. */
export interface OpenApp {
  readonly app: Application
  /** Makes reads that begin after this call see everything that was committed before it. */
  readAnew(): void
  /** Rejects when the storage does not answer. */
  ping(): Promise<void>
  /** Whether the limits hold for this process only; `undefined` without limits. */
  isCountingLocally(): boolean | undefined
  /** What the limits have done since the start; `undefined` without limits. */
  limitsReport(): LimitsReport | undefined
  /** For operators. */
  readonly bans: BanControl
  /** Reads the limits file again. An invalid file leaves the previous rules in force. The log has the result too. */
  reloadLimits(): Promise<ReloadResult>
  /** Counts the requests; `undefined` without a management port. */
  readonly metrics: RequestMetrics | undefined
  /** What this process has counted, and how it is now. Rejects without a management port. */
  report(): Promise<AppReport>
  /** Finishes the waiting writes and closes the storage. */
  close(): Promise<void>
}

export interface AppOptions {
  readonly config: Config
  readonly log: Logger
  readonly stopping: AppDependencies['stopping']
  readonly newRequestId: () => string
  /** Whether the server of the application listens on loopback only. A server that is not known counts as reachable by all. */
  readonly isOnLoopback?: () => boolean
  /** The machine's clocks if left out. */
  readonly clocks?: Clocks
  /** Replaces the rules of the file that `config` names. */
  readonly limits?: CheckedLimits | undefined
  /** Replaces the API keys of the storage, even if none are required. */
  readonly keys?: AppDependencies['keys']
  /** Called with what each rule of the limits does. */
  readonly trace?: LimitsTrace
}

/**
 * Opens the storage and creates the application. Throws `OperatorError` when the database cannot be opened or the rules of
 * the limits are wrong.
 */
export async function openApp(options: AppOptions): Promise<OpenApp> {
  const { config, log, clocks = createClocks() } = options
  const limits = options.limits ?? (await readOwnLimits(config))
  const storage = await openStorage(config, {
    ...clocks,
    onWarning: (message, err) => log.warn({ err }, message),
    onIndexing: progress => logIndexing(log, progress),
  })
  const opened: Closable[] = [storage]
  const close = async () => {
    for (const part of opened.toReversed()) await part.close()
  }
  try {
    const parts = { storage, opened, limits }
    const build = () => buildApp({ ...options, clocks }, parts)
    return { ...(await blameSetting(config.database, build)), close }
  } catch (error) {
    await close()
    throw error
  }
}

async function readOwnLimits({ limitsFile, cacheStore }: Config) {
  if (limitsFile !== undefined) return (await importLimits()).readLimits(limitsFile)
  // Without rules Redis is opened too, so that a wrong password stops this start, and not the one after rules are added.
  return cacheStore === 'redis' ? NO_LIMITS : undefined
}

interface Closable {
  close(): Promise<void>
}

interface AppParts {
  readonly storage: Storage
  readonly limits: CheckedLimits | undefined
  /** Gets what is opened beside the storage. It is closed in the opposite order. */
  readonly opened: Closable[]
}

// Only where there are rules: the list of public suffixes takes 5 MB and 50 ms of a start.
const importLimits = () => import('./open-limits.ts')

async function buildApp(
  options: AppOptions & { readonly clocks: Clocks },
  { storage, limits, opened }: AppParts,
): Promise<Omit<OpenApp, 'close'>> {
  const { config, log, stopping, newRequestId, clocks } = options
  const { isOnLoopback = () => false } = options
  const cursors = createCursors(await storage.signingKey('cursor'))
  const lines = createRuleLines({ log, ...clocks })
  const keys =
    config.apiKeys === 'required'
      ? await openKeys(storage, { log, clocks, isInMemory: isInMemory(config) })
      : undefined
  if (keys !== undefined) opened.push(keys)
  const openLimits =
    limits &&
    (await (await importLimits()).openLimits({ ...options, limits, clocks, storage, lines }))
  if (openLimits !== undefined) opened.push(openLimits)
  const limiter = openLimits?.limiter
  const passwords = createPasswordHasher({ maxWaiting: config.maxWaitingPasswords })
  const rules = createUserRules(config)
  const metrics = config.managementPort === undefined ? undefined : createRequestMetrics()
  const limitsReport = () => openLimits?.report()
  const reporter =
    metrics && (await openProcessReporter({ metrics, storage, passwords, limitsReport }))
  if (reporter !== undefined) opened.push(reporter)
  const app = createApp({
    metrics,
    users: createUserService({
      users: storage.users,
      passwords,
      cursors,
      rules,
    }),
    verifications: createPasswordVerifications({
      users: storage.users,
      passwords,
      rules,
      onUpgradeFailure: err => log.warn({ err }, 'cannot replace a weak password digest'),
    }),
    rules,
    ping: storage.users.ping,
    stopping,
    log,
    newRequestId,
    limiter,
    isCountingLocally: openLimits?.isCountingLocally,
    keys: options.keys ?? keys,
    isOnLoopback,
    onHostRefused: host => writeRefusedHost(host, lines),
    settings: config,
  })
  return {
    app,
    metrics,
    readAnew: storage.readAnew,
    ping: storage.users.ping,
    isCountingLocally: () => openLimits?.isCountingLocally(),
    limitsReport,
    bans: openLimits?.bans ?? createControlWithoutRules(storage.bans),
    report: async () => {
      if (reporter === undefined) throw new Error('there is no management port')
      return reporter.report()
    },
    reloadLimits: async () => {
      const { reloadLimits } = await importLimits()
      return reloadLimits(config, log, read => (limiter as Limiter).replace(read))
    },
  }
}
