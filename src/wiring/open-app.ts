import type { Application } from 'express'
import type { Logger } from 'pino'
import { type AppDependencies, createApp } from '../app.ts'
import type { Config } from '../config.ts'
import type { Limiter } from '../limits/limiter.ts'
import type { LimitsTrace } from '../limits/limits-trace.ts'
import type { RuleChanges } from '../limits/rule-changes.ts'
import { createRuleLines, LINES_A_SECOND, type RuleLines } from '../limits/rule-lines.ts'
import type { CheckedLimits } from '../limits/rules/compiled-rules.ts'
import type { LimitsSource } from '../limits/rules/load-limits.ts'
import { createSharedRuleLines } from '../limits/workers/shared-rule-lines.ts'
import type { ServiceStorage } from '../storage/storage.ts'
import { createCursors } from '../users/cursor.ts'
import { createFingerprints } from '../users/fingerprint.ts'
import { createKeysInUse } from '../users/keys-in-use.ts'
import { createPasswordHasher } from '../users/passwords.ts'
import { createSharedKeysInUse } from '../users/shared-keys-in-use.ts'
import { createUserRules } from '../users/user.ts'
import { createUserService } from '../users/user-service.ts'
import type { Calls } from '../workers/calls.ts'
import { type Clocks, createClocks } from './clocks.ts'
import { openStorage } from './open-storage.ts'

/** The Express application with its storage open, for any server. */
export interface OpenApp {
  readonly app: Application
  /** Makes reads that begin after this call see everything that was committed before it. */
  readAnew(): void
  /** Reads the limits file again. An invalid file leaves the previous rules in force. The log has the result. */
  reloadLimits(): Promise<void>
  /** Compiles rules and returns the call that puts them in force. Rejects with `LimitsRefused`. */
  prepareLimits(source: LimitsSource): Promise<() => RuleChanges>
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
  /** Called with what each rule of the limits does. */
  readonly trace?: LimitsTrace
  /** Calls to the first process, if this is one of several that serve together. */
  readonly firstProcess?: Calls
}

/**
 * Opens the storage and creates the application. Throws `OperatorError` when the database cannot be opened or the rules of
 * the limits are wrong.
 */
export async function openApp(options: AppOptions): Promise<OpenApp> {
  const { config, log, clocks = createClocks(), firstProcess } = options
  const { limitsFile } = config
  const limits =
    options.limits ?? (limitsFile && (await (await importLimits()).readLimits(limitsFile)).limits)
  const storage = await openStorage(config, {
    ...clocks,
    firstProcess,
    onWarning: (message, err) => log.warn({ err }, message),
  })
  try {
    return await buildApp({ ...options, clocks }, { storage, limits: limits || undefined })
  } catch (error) {
    await storage.close()
    throw error
  }
}

// Only where there are rules: the list of public suffixes takes 5 MB and 50 ms of a start.
const importLimits = () => import('./open-limits.ts')

type BuildOptions = AppOptions & { readonly clocks: Clocks }

async function buildApp(
  options: BuildOptions,
  {
    storage,
    limits,
  }: { readonly storage: ServiceStorage; readonly limits: CheckedLimits | undefined },
): Promise<OpenApp> {
  const { config, log, stopping, newRequestId, clocks, firstProcess } = options
  const { isOnLoopback = () => false } = options
  const cursors = createCursors(await storage.signingKey('cursor'))
  // Last of what may fail, because it goes on to look for bans of other processes.
  const openLimits =
    limits && (await (await importLimits()).openLimits({ ...options, limits, clocks, storage }))
  const limiter = openLimits?.limiter
  // Rules are replaced only where there were rules at the start.
  const replaceLimits = (read: CheckedLimits) => (limiter as Limiter).replace(read)
  const passwords = createPasswordHasher({ maxWaiting: config.maxWaitingPasswords })
  const rules = createUserRules(config)
  const lines = openLines(options)
  const app = createApp({
    users: createUserService({
      users: storage.users,
      passwords,
      fingerprints: createFingerprints(passwords),
      cursors,
      rules,
      keysInUse: firstProcess ? createSharedKeysInUse(firstProcess) : createKeysInUse(),
    }),
    rules,
    ping: storage.users.ping,
    stopping,
    log,
    newRequestId,
    limiter,
    isCountingLocally: openLimits?.isCountingLocally,
    isOnLoopback,
    onHostRefused: host => writeRefusedHost(host, lines),
    settings: config,
  })
  return {
    app,
    readAnew: storage.readAnew,
    reloadLimits: async () => {
      const { reloadLimits } = await importLimits()
      await reloadLimits(config, log, async (_source, read) => replaceLimits(read))
    },
    prepareLimits: async source => {
      const read = await (await import('../limits/rules/load-limits.ts')).compileLimits(source)
      return () => replaceLimits(read)
    },
    close: async () => {
      await openLimits?.close()
      await lines.close()
      await storage.close()
    },
  }
}

/** Log lines of which clients can cause many. Workers share them, so that each is written once. */
function openLines({ firstProcess, log, clocks: { monotonicNow } }: BuildOptions): RuleLines {
  if (firstProcess === undefined) return createRuleLines({ log, monotonicNow })
  return createSharedRuleLines({ firstProcess, monotonicNow })
}

/** One line for each host, and at most `LINES_A_SECOND`. */
function writeRefusedHost(host: string, lines: RuleLines): void {
  const once = { key: `host\n${host}`, resetsInMs: Number.MAX_SAFE_INTEGER }
  const throttled = { source: 'refused hosts', most: LINES_A_SECOND, once }
  const message = 'a request asked for a host that ALLOWED_HOSTS does not allow'
  lines.write({ level: 'warn', message, ...throttled }, () => ({ setting: 'ALLOWED_HOSTS', host }))
}
