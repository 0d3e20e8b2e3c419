import type { Logger } from 'pino'
import { isKeyValid } from './access/key-checks.ts'
import { type KeyRing, openKeyRing } from './access/key-ring.ts'
import { type AppDependencies, createApp } from './app.ts'
import { type Clocks, createClocks } from './clocks.ts'
import { type Config, describeProblem } from './config/settings.ts'
import { ServiceError } from './errors.ts'
import { createControlWithoutRules } from './limits/ban-control.ts'
import { createHostLog, createRuleLines } from './limits/rule-lines.ts'
import type { CheckedLimits } from './limits/rules/rules-schema.ts'
import { isInMemory, openStorage } from './open-database.ts'
import { createReadinessCheck } from './ops/health.ts'
import { createReporter } from './ops/metrics/service-report.ts'
import { createHttpServer, type Timeouts } from './server/server.ts'
import { createStopping, type Stopping } from './server/stop.ts'
import type { IndexingProgress, Storage } from './storage/storage.ts'
import { blaming } from './storage/unusable-database.ts'
import { createChangeFeed } from './users/change-feed.ts'
import { callAfterWrites, createChangeWatch } from './users/change-watch.ts'
import { createCursors } from './users/cursor.ts'
import { createPasswordHasher } from './users/passwords/hasher.ts'
import { startForgetting } from './users/user-changes.ts'
import { createUserRules } from './users/user-schemas.ts'
import { createUserService } from './users/user-service.ts'

export interface AppOptions {
  readonly config: Config
  readonly log: Logger
  readonly stopping: AppDependencies['stopping'] & Pick<Stopping, 'begin'>
  /**
   * Whether the server of the application listens on loopback only. If left out, the server counts as reachable from
   * anywhere.
   */
  readonly isOnLoopback?: () => boolean
  /** The machine's clocks if left out. */
  readonly clocks?: Clocks
  /** Replaces the rules of the file that `config` names. */
  readonly limits?: CheckedLimits | undefined
  /** Replaces the API keys of the storage, even if none are required. */
  readonly keys?: AppDependencies['keys']
}

/**
 * Opens the storage and what stands on it, and creates the application. Throws `OperatorError` if the database cannot be
 * opened or the rules of the limits are wrong.
 */
export async function openApp(options: AppOptions) {
  const { config, log, stopping, clocks = createClocks(), isOnLoopback = () => false } = options
  const rulesOfLimits = options.limits ?? (await readOwnLimits(config))
  const opened: { close(): Promise<void> }[] = []
  const close = async () => {
    for (const part of opened.toReversed()) await part.close()
  }

  async function open() {
    const metrics =
      config.managementPort === undefined ? undefined : (await importMetrics()).createMetrics()
    const storage = await openStorage(config, {
      ...clocks,
      onWarning: (message, err) => log.warn({ err }, message),
      onCommit: metrics?.recordCommit,
      onIndexing: progress => logIndexing(log, progress),
    })
    opened.push(storage)
    const cursors = createCursors(await storage.signingKey('cursor'))

    const keys =
      config.apiKeys === 'required' ? await openKeys(storage, { config, log, clocks }) : undefined
    if (keys !== undefined) opened.push(keys)

    const lines = createRuleLines({ log, ...clocks })
    const partsOfLimits = { ...options, clocks, storage, lines }
    const limits =
      rulesOfLimits &&
      (await (await importLimits()).openLimits({ ...partsOfLimits, limits: rulesOfLimits }))
    if (limits !== undefined) opened.push(limits)
    const limitsReport = () => limits?.report()

    const passwords = createPasswordHasher({ maxWaiting: config.maxWaitingPasswords })
    const rules = createUserRules(config)
    const watch = createChangeWatch(storage.changes)
    const users = createUserService({
      ...{ users: callAfterWrites(storage.users, watch.touch), passwords, rules, cursors },
      onUpgradeFailure: err => log.warn({ err }, 'cannot replace a weak password digest'),
    })
    const forgetting = startForgetting({
      ...clocks,
      changes: storage.changes,
      isIdle: storage.isIdle,
      retentionMs: config.changesRetentionMs,
      onFailure: err => log.warn({ err }, 'cannot forget old deletions'),
    })
    opened.push(forgetting)

    const ring = options.keys ?? keys
    const changes = createChangeFeed({
      changes: storage.changes,
      watch,
      maxWaiting: config.maxWaitingRequests,
      isAllowed: request => ring === undefined || isKeyValid(ring, request),
    })
    opened.push({ close: async () => changes.end() })
    stopping.begin.then(changes.end)

    const checks = createReadinessCheck({
      ping: storage.users.ping,
      isStopping: stopping.hasBegun,
      isCountingLocally: limits?.isCountingLocally,
    })
    const app = createApp({
      ...{ users, changes, rules, checks, stopping, log, isOnLoopback },
      metrics: metrics?.requests,
      limiter: limits?.limiter,
      keys: ring,
      onHostRefused: createHostLog(lines),
      settings: config,
    })
    return {
      app,
      checks,
      /** Finishes the waiting writes and closes the storage. */
      close,
      /** What the limits have done since the start; `undefined` without limits. */
      limitsReport,
      /** Of the service; `undefined` without a management port. */
      metrics,
      /** Makes reads that begin after this call see everything that was committed before it. */
      readAnew: storage.readAnew,
      /** For operators. */
      bans: limits?.bans ?? createControlWithoutRules(storage.bans),
      /** What this process has counted, and how it is now; `undefined` without a management port. */
      reporter:
        metrics &&
        createReporter({
          ...{ checks, metrics, storage, passwords, limits: limitsReport },
          wholeLists: users.whole,
          feed: () => ({ ...changes.report(), deletions: forgetting.kept() }),
        }),
      /** As `Operations` says. */
      reloadLimits: async () => {
        try {
          return await (await importLimits()).reloadLimits(config, log, limits?.limiter)
        } catch (err) {
          if (err instanceof ServiceError) throw err
          log.error({ err }, 'limits could not be reloaded, keeping the previous rules')
          throw new ServiceError('reload_failed')
        }
      },
    }
  }

  const { url } = config.database
  try {
    return await blaming(reason => describeProblem('DATABASE_URL', url, reason), open)
  } catch (error) {
    await close()
    throw error
  }
}

/** A service: the application with its server. */
export type Service = Awaited<ReturnType<typeof openService>>

export interface ServiceOptions extends Omit<AppOptions, 'stopping' | 'isOnLoopback'> {
  /** How long clients may take. The defaults of `createHttpServer` if left out. */
  readonly timeouts?: Timeouts
}

/** Opens the service, which does not listen yet. Throws `OperatorError` when it cannot be opened. */
export async function openService(options: ServiceOptions) {
  const stopping = createStopping()
  const isOnLoopback = (): boolean => server.isOnLoopback()
  const opened = await openApp({ ...options, stopping, isOnLoopback })
  const { app, readAnew, metrics, reporter, ...others } = opened
  const server = createHttpServer({
    ...{ ...options, app, metrics: metrics?.requests, stopping },
    capacity: options.config,
    onLateRequest: readAnew,
  })
  return {
    ...others,
    server,
    /** For the management port; `undefined` without one. */
    operations: metrics &&
      reporter && {
        ...others,
        metrics,
        report: () => reporter.report(server),
        count: () => reporter.count(server),
      },
  }
}

async function readOwnLimits({ limitsFile, cacheStore }: Config) {
  // Redis is opened even without rules: a wrong password then stops this start, not the first one with rules.
  if (limitsFile === undefined && cacheStore !== 'redis') return undefined
  return (await importLimits()).readLimits(limitsFile)
}

// Only where there are rules: the list of public suffixes takes 5 MB and 50 ms of a start.
const importLimits = () => import('./open-limits.ts')

// Only with a management port: prom-client takes 3 MB.
const importMetrics = () => import('./ops/metrics/create-metrics.ts')

/** The API keys of a service that requires them. Rejects when they cannot be read. */
async function openKeys(
  { apiKeys, untilReachable }: Storage,
  { config, log, clocks }: Required<Pick<AppOptions, 'config' | 'log' | 'clocks'>>,
): Promise<KeyRing> {
  const fail = (message: string) => (err: unknown) => log.error({ err }, message)
  const ring = await untilReachable(() =>
    openKeyRing({
      ...clocks,
      store: apiKeys,
      onReadFailure: fail('cannot refresh API keys, keeping those already loaded'),
      onRecordFailure: fail('cannot record when API keys were used'),
    }),
  )
  if (ring.isEmpty()) {
    const hint = isInMemory(config)
      ? 'a database in memory can have none'
      : 'make one with keys create'
    log.warn(`API_KEYS is required, but there is no key: ${hint}`)
  }
  return ring
}

/** Writes to the log how far the index of words is. */
function logIndexing(log: Logger, { isComplete, through, lastId }: IndexingProgress): void {
  if (isComplete) log.info('index of words is complete')
  else log.info({ through, lastId }, 'index of words is being built, lists with q are answered 503')
}
