import type { Logger } from 'pino'
import { isKeyValid } from './access/key-checks.ts'
import { type KeyRing, openKeyRing } from './access/key-ring.ts'
import { type AppDependencies, createApp } from './app.ts'
import { type Clocks, createClocks } from './clocks.ts'
import { type Config, describeProblem } from './config/settings.ts'
import { createControlWithoutRules } from './limits/ban-control.ts'
import type { CheckedLimits } from './limits/kinds/kinds.ts'
import { createHostLog } from './limits/rule-lines.ts'
import { isInMemory, openStorage } from './open-database.ts'
import { openPasswords } from './open-passwords.ts'
import { createReadinessCheck } from './ops/health.ts'
import type { Operations } from './ops/management/operations-router.ts'
import { createReporter } from './ops/metrics/service-report.ts'
import { createHttpServer, type HttpServer, type Timeouts } from './server/server.ts'
import { createStopping, type Stopping } from './server/stop.ts'
import type { FoldingProgress, Storage } from './storage/storage.ts'
import { blaming } from './storage/unusable-database.ts'
import { type ChangeFeed, createChangeFeed } from './users/change-feed.ts'
import { createCursors } from './users/cursor.ts'
import { startForgetting } from './users/user-changes.ts'
import type { UserQuery } from './users/user-repository.ts'
import { createUserRules } from './users/user-schemas.ts'
import { createUserService } from './users/user-service.ts'
import { describeWebhooks } from './webhooks/describe-webhooks.ts'
import type { WebhookRunner } from './webhooks/webhook-runner.ts'

export interface AppOptions {
  readonly config: Config
  readonly log: Logger
  readonly stopping: Pick<Stopping, 'hasBegun' | 'begin'>
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
  const { url } = options.config.database
  const closers: Closers = []
  /** Finishes the waiting writes and closes the storage. */
  const close = async () => {
    for (const end of closers.toReversed()) await end()
  }
  try {
    const open = () => openParts(options, closers)
    const parts = await blaming(reason => describeProblem('DATABASE_URL', url, reason), open)
    return { ...parts, close }
  } catch (error) {
    await close()
    throw error
  }
}

/** The storage keeps the total, so that no list counts. */
const FIRST_WITH_TOTAL: UserQuery = {
  ...{ sort: { by: 'id', descending: false }, filters: {}, words: [] },
  ...{ start: { offset: 0 }, limit: 1, withTotal: true },
}

/** What is to be called at the end, the last first. */
type Closers = (() => unknown)[]

async function openParts(options: AppOptions, closers: Closers) {
  const { config, log, stopping, clocks = createClocks() } = options
  const rulesOfLimits = options.limits ?? (await readOwnLimits(config))
  const maxWaiting = config.maxWaitingPasswords
  const { passwords, close: closePasswords } = await openPasswords(config, { maxWaiting })
  closers.push(closePasswords)
  // Only with a management port: prom-client takes 12 MB.
  const metrics =
    config.managementPort === undefined
      ? undefined
      : (await import('./ops/metrics/create-metrics.ts')).createMetrics(clocks.now)

  const storage = await openStorage(config, {
    ...clocks,
    onWarning: (message, err) => log.warn({ err }, message),
    onCommit: metrics?.recordCommit,
    onFolding: progress => logFolding(log, progress),
  })
  closers.push(storage.close)
  const cursors = createCursors(await storage.signingKey('cursor'))

  const opened = { config, log, clocks, storage }
  const keys = config.apiKeys === 'required' ? await openKeys(opened) : undefined
  if (keys !== undefined) closers.push(keys.close)
  const ring = options.keys ?? keys

  // Imported only where there are rules: the list of public suffixes takes 5 MB and 50 ms of a start.
  const limits =
    rulesOfLimits &&
    (await (await import('./open-limits.ts')).openLimits({ ...opened, limits: rulesOfLimits }))
  if (limits !== undefined) closers.push(limits.close)

  const rules = createUserRules(config)
  const changes = createChangeFeed({
    changes: storage.changes,
    maxWaiting: config.maxWaitingRequests,
    isAllowed: request => ring === undefined || isKeyValid(ring, request),
  })
  const users = createUserService({
    users: storage.users,
    onWrite: changes.touch,
    passwords,
    rules,
    cursors,
    onUpgradeFailure: err => log.warn({ err }, 'cannot replace a weak password digest'),
  })
  const forgetting = startForgetting({
    ...clocks,
    changes: storage.changes,
    isIdle: storage.isIdle,
    retentionMs: config.changesRetentionMs,
    onFailure: err => log.warn({ err }, 'cannot forget old deletions'),
  })
  closers.push(forgetting.close)
  closers.push(changes.end)
  // They wait for the feed, so they stop before it does.
  const webhooks = await openWebhooks(opened, changes)
  if (webhooks !== undefined) closers.push(() => webhooks.stop(0))
  const stopWebhooks = async (timeoutMs: number) => (await webhooks?.stop(timeoutMs)) !== false
  stopping.begin.then(() => stopWebhooks(config.shutdownTimeoutMs))
  stopping.begin.then(changes.end)

  const checks = createReadinessCheck({
    ping: storage.users.ping,
    shortage: () => storage.report().connections?.short,
    isStopping: stopping.hasBegun,
    isCountingLocally: limits?.isCountingLocally,
  })
  const app = createApp({
    users,
    changes,
    rules,
    checks,
    log,
    metrics: metrics?.requests,
    limiter: limits?.limiter,
    keys: ring,
    onHostRefused: createHostLog({ log, ...clocks }),
    settings: config,
  })
  const readAnew = storage.readAnew
  const bans = limits?.bans ?? createControlWithoutRules(storage.bans, clocks.now)
  const limitsReport = () => limits?.report()
  const reloadLimits: Operations['reloadLimits'] = async () => {
    if (limits !== undefined && config.limitsFile !== undefined) {
      return limits.reload(config.limitsFile)
    }
    log.info('reload ignored: LIMITS_FILE is not set')
    return undefined
  }
  return {
    app,
    bans,
    /** What the limits have done since the start; `undefined` without limits. */
    limitsReport,
    /** Counts requests; `undefined` without a management port. */
    metrics: metrics?.requests,
    readAnew,
    /**
     * Begins no request to a webhook, and waits for those that run. Resolves to whether they ended within `timeoutMs`; the rest is
     * cut off.
     */
    stopWebhooks,
    reloadLimits,
    /** For the management port; `undefined` without one. */
    operationsOf: (server: HttpServer): Operations | undefined =>
      metrics && {
        ...createReporter({
          ...{ checks, server, metrics, storage, passwords, limits: limitsReport },
          wholeLists: users.whole,
          feed: () => ({ ...changes.report(), deletions: forgetting.kept() }),
          webhooks: () => webhooks?.report() ?? [],
        }),
        ...{ bans, checks, clocks, metrics, readAnew, reloadLimits, users: { users, changes } },
        countUsers: async () => (await storage.users.list(FIRST_WITH_TOTAL)).total,
        describeWebhooks: async () =>
          describeWebhooks(await storage.webhooks.list(), storage.changes, clocks.now()),
      },
  }
}

/** A service: the application with its server. */
export type Service = Awaited<ReturnType<typeof openService>>

export interface ServiceOptions extends Omit<AppOptions, 'stopping'> {
  /** How long clients may take. The defaults of `createHttpServer` if left out. */
  readonly timeouts?: Timeouts
}

/** Opens the service, which does not listen yet. Throws `OperatorError` when it cannot be opened. */
export async function openService(options: ServiceOptions) {
  const stopping = createStopping()
  const { operationsOf, ...opened } = await openApp({ ...options, stopping })
  const server = createHttpServer({
    ...options,
    ...opened,
    stopping,
    capacity: options.config,
    keepAliveTimeoutMs: options.config.keepAliveTimeoutMs,
    onLateRequest: opened.readAnew,
  })
  return { ...opened, server, operations: operationsOf(server) }
}

async function readOwnLimits({ limitsFile, cacheStore }: Config) {
  // Redis is opened even without rules: a wrong password then stops this start, not the first one with rules.
  if (limitsFile === undefined && cacheStore !== 'redis') return undefined
  return (await import('./open-limits.ts')).readLimits(limitsFile)
}

interface Opened extends Required<Pick<AppOptions, 'config' | 'log' | 'clocks'>> {
  readonly storage: Storage
}

/** Only where a command can have added one: a database in memory has none. */
async function openWebhooks(
  { config, log, clocks, storage }: Opened,
  { untilNews }: ChangeFeed,
): Promise<WebhookRunner | undefined> {
  if (config.webhooks === 'off' || isInMemory(config)) return undefined
  const { startWebhooks } = await import('./webhooks/webhook-runner.ts')
  const { webhooks: store, changes, isIdle } = storage
  return startWebhooks({ ...clocks, store, changes, untilNews, log, isIdle })
}

/** The API keys of a service that requires them. Rejects when they cannot be read. */
async function openKeys({ config, log, clocks, storage }: Opened): Promise<KeyRing> {
  const fail = (message: string) => (err: unknown) => log.error({ err }, message)
  const ring = await storage.untilReachable(() =>
    openKeyRing({
      ...clocks,
      store: storage.apiKeys,
      onChange: (change, { name, scopes, expiresAt }) => {
        const expires = expiresAt === Infinity ? undefined : new Date(expiresAt).toISOString()
        log.info({ key: name, scopes: [...scopes], expires }, `API key ${change}`)
      },
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

/** Writes to the log how far words are made again by newer rules. */
function logFolding(log: Logger, { isComplete, through, lastId }: FoldingProgress): void {
  if (isComplete) log.info('words of users are those of this release')
  else log.info({ through, lastId }, 'words of users are made again by newer rules')
}
