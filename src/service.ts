import type { Logger } from 'pino'
import { isKeyValid } from './access/key-checks.ts'
import { type AppDependencies, createApp } from './app.ts'
import { type Config, describeProblem } from './config/settings.ts'
import { createHostLog } from './http/throttled-log.ts'
import type { CheckedLimits } from './limits/kinds/kinds.ts'
import { createReadinessCheck } from './ops/health.ts'
import type { Operations } from './ops/management/operations-router.ts'
import { type Clocks, createClocks } from './platform/clocks.ts'
import { type Closers, openAll } from './platform/open-all.ts'
import { createHttpServer, type HttpServer, type Timeouts } from './server/server.ts'
import { createStopping, type Stopping } from './server/stop.ts'
import { blaming } from './storage/unusable-database.ts'
import { createChangeFeed } from './users/change-feed.ts'
import { createCursors } from './users/cursor.ts'
import { startForgetting } from './users/user-changes.ts'
import { createUserRules } from './users/user-schemas.ts'
import { createUserService } from './users/user-service.ts'
import { openPasswords } from './wiring/open-passwords.ts'
import { openStorage } from './wiring/open-storage.ts'
import {
  createOperations,
  openKeys,
  openMetrics,
  openOwnLimits,
  openWebhooks,
  readOwnRules,
} from './wiring/service-parts.ts'

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
 * Opens the storage and what stands on it, and creates the application. `close` finishes the waiting writes. Throws
 * `OperatorError` if the database cannot be opened or the rules of the limits are wrong.
 */
export function openApp(options: AppOptions) {
  const { url } = options.config.database
  const describe = (reason: string) => describeProblem('DATABASE_URL', url, reason)
  return openAll(closers => blaming(describe, () => openParts(options, closers)))
}

/** Each part in the order in which the next one needs it. */
async function openParts(options: AppOptions, closers: Closers) {
  const { config, log, stopping, clocks = createClocks() } = options
  const rulesOfLimits = options.limits ?? (await readOwnRules(config))
  const maxWaiting = config.maxWaitingPasswords
  const { passwords, close: closePasswords } = await openPasswords(config, { maxWaiting })
  closers.push(closePasswords)
  const metrics = await openMetrics(config, clocks)

  const storage = await openStorage(config, { log, clocks, onCommit: metrics?.recordCommit })
  closers.push(storage.close)
  const cursors = createCursors(await storage.signingKey('cursor'))
  const opened = { config, log, clocks, storage }

  const ownKeys = config.apiKeys === 'required' ? await openKeys(opened) : undefined
  if (ownKeys !== undefined) closers.push(ownKeys.close)
  const keys = options.keys ?? ownKeys
  const limits = await openOwnLimits(opened, rulesOfLimits)
  closers.push(limits.close)

  const rules = createUserRules(config)
  const changes = createChangeFeed({
    changes: storage.changes,
    maxWaiting: config.maxWaitingRequests,
    isAllowed: request => keys === undefined || isKeyValid(keys, request),
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
  closers.push(forgetting.close, changes.end)
  // They wait for the feed, so they stop before it does.
  const webhooks = await openWebhooks(opened, changes)
  closers.push(() => webhooks.stop(0))
  stopping.begin.then(() => webhooks.stop(config.shutdownTimeoutMs))
  stopping.begin.then(changes.end)

  const checks = createReadinessCheck({
    ping: storage.users.ping,
    shortage: () => storage.report().connections?.short,
    isStopping: stopping.hasBegun,
    isCountingLocally: limits.isCountingLocally,
  })
  const app = createApp({
    ...{ users, changes, rules, checks, log, keys, settings: config },
    metrics: metrics?.requests,
    limiter: limits.limiter,
    onHostRefused: createHostLog({ log, ...clocks }),
  })
  const parts = { storage, clocks, passwords, users, changes, checks, limits }
  const ofFeed = { deletions: forgetting.kept, webhooks: webhooks.report }
  return {
    app,
    limits,
    /** Counts requests; `undefined` without a management port. */
    metrics: metrics?.requests,
    readAnew: storage.readAnew,
    /** Resolves to whether the requests to webhooks that run ended within `timeoutMs`; the rest is cut off. */
    stopWebhooks: webhooks.stop,
    /** For the management port; `undefined` without one. */
    operationsOf: (server: HttpServer): Operations | undefined =>
      metrics && createOperations({ ...parts, ...ofFeed, metrics, server }),
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
