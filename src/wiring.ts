import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import type { Database } from 'better-sqlite3'
import type { Logger } from 'pino'
import { createApp } from './app.ts'
import { type Config, type DatabaseLocation, mistakeIn, problemWith } from './config.ts'
import { OperatorError } from './errors.ts'
import { createHttpServer, type HttpServer, type Timeouts } from './http/server.ts'
import { createStopping } from './http/stopping.ts'
import { type BanList, openBanList } from './limits/ban-list.ts'
import type { BanStore } from './limits/ban-store.ts'
import { counterKey } from './limits/counter-store.ts'
import type { Limiter } from './limits/limiter.ts'
import type { LimitsWatch } from './limits/limits-watch.ts'
import { LimitsRefused, loadLimits } from './limits/load-limits.ts'
import { createMemoryCounterStore } from './limits/memory-counter-store.ts'
import type { CheckedLimits } from './limits/rules-schema.ts'
import { type Backup, backupDatabase } from './storage/backup-database.ts'
import { checkDatabase, type WorkOptions } from './storage/check-database.ts'
import { DatabaseRefused } from './storage/database-refused.ts'
import type { Examination } from './storage/find-faults.ts'
import { createReadView } from './storage/read-view.ts'
import { type Restored, restoreDatabase } from './storage/restore-database.ts'
import { signingKey } from './storage/signing-keys.ts'
import { type MigrationStatus, migrationStatus, openSqlite } from './storage/sqlite.ts'
import { createSqliteBanStore } from './storage/sqlite-ban-store.ts'
import { createWriteQueue, type WriteQueue } from './storage/write-queue.ts'
import { createCursors } from './users/cursor.ts'
import { createFingerprints } from './users/fingerprint.ts'
import { createPasswordHasher } from './users/passwords.ts'
import { createSqliteDryRunImportStore } from './users/sqlite-dry-run-import-store.ts'
import { createSqliteUserImportStore } from './users/sqlite-user-import-store.ts'
import { createSqliteUserRepository } from './users/sqlite-user-repository.ts'
import { createUserRules } from './users/user.ts'
import { createUserExporter, type UserExporter } from './users/user-export.ts'
import { createUserImporter, type UserImporter } from './users/user-import.ts'
import type { UserRepository } from './users/user-repository.ts'
import { createUserService } from './users/user-service.ts'

export type { WorkOptions }

export interface Service {
  readonly server: HttpServer
  /** Reads the rules of the limits again; a wrong file leaves those of before. What came of it is in the log. */
  reloadLimits(): Promise<void>
  /** Ends what is being written and closes the stores. */
  close(): Promise<void>
}

export interface WiringOptions {
  readonly config: Config
  readonly log: Logger
  /** Milliseconds since the epoch. */
  readonly now?: () => number
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow?: () => number
  readonly newRequestId?: () => string
  /** Looks on while the limits decide. */
  readonly watch?: LimitsWatch
  /** How long clients may take; as `createHttpServer` has it where left out. */
  readonly timeouts?: Timeouts
}

/** The service with its stores open, not yet listening. Throws `OperatorError` when it cannot be opened. */
export async function openService(options: WiringOptions): Promise<Service> {
  const { config, log, now = Date.now, newRequestId = randomUUID } = options
  const steadyNow = createSteadyClock(options)
  const limits = config.limitsFile === undefined ? undefined : await readLimits(config.limitsFile)
  const stores = await openStores(config, { now, steadyNow })
  const { database, writes, users: repository } = stores
  const parts = { ...options, database, writes, steadyNow }
  const { limiter, bans } = limits ? await openLimits({ ...parts, limits }) : {}
  const passwords = createPasswordHasher({ maxWaiting: config.maxWaitingPasswords })
  const stopping = createStopping()
  const rules = createUserRules(config)
  const app = createApp({
    users: createUserService({
      users: repository,
      passwords,
      fingerprints: createFingerprints(passwords),
      cursors: createCursors(signingKey(database, 'cursor')),
      rules,
    }),
    rules,
    ping: repository.ping,
    stopping,
    log,
    newRequestId,
    limiter,
    settings: config,
  })
  return {
    server: createHttpServer({ ...options, app, stopping, newRequestId, capacity: config }),
    reloadLimits: () => reloadLimits(config, limiter, log),
    close: async () => {
      await bans?.close()
      await stores.close(err => log.warn({ err }, 'the WAL could not be put away'))
    },
  }
}

interface Stores {
  readonly database: Database
  readonly writes: WriteQueue
  readonly users: UserRepository
  /** Ends what is being written. What keeps the WAL from being put away is told, and no harm: the next start finds it. */
  close(onCheckpointFailure: (error: unknown) => void): Promise<void>
}

interface Clocks {
  readonly now: () => number
  readonly steadyNow: () => number
}

async function openStores(config: Config, { now, steadyNow }: Clocks): Promise<Stores> {
  const database = await openDatabase(config, now)
  const view = createReadView(database)
  const writes = createWriteQueue(database, view, { maxPending: config.maxWaitingWrites })
  return {
    database,
    writes,
    users: createSqliteUserRepository({ database, writes, view, now, steadyNow }),
    close: async onCheckpointFailure => {
      await writes.close()
      view.end()
      try {
        database.pragma('wal_checkpoint(TRUNCATE)')
      } catch (error) {
        onCheckpointFailure(error)
      }
      database.close()
    },
  }
}

/** The ways in and out for many users at once, beside a running service or without one. */
export interface UserTransfer {
  readonly importer: UserImporter
  readonly exporter: UserExporter
  close(): Promise<void>
}

/** libuv has no more threads, unless it is told otherwise before the process starts. */
const MAX_HASHING_THREADS = 4

/**
 * Throws `OperatorError` when the database cannot be opened. Where nothing is to be changed (`readOnly`), there must be
 * one, or for an import that is only tried an empty one stands for it, and its schema must be that of this release.
 */
export async function openUserTransfer(
  config: Config,
  { purpose }: { readonly purpose: 'import' | 'dry run' | 'export' },
): Promise<UserTransfer> {
  const isThere = existsSync(config.database.path)
  if (!isThere && purpose === 'export') throw refusedDatabase(config, 'there is none')
  if (isThere && purpose !== 'import') await requireCurrentSchema(config)
  const isStandIn = !isThere && purpose === 'dry run'
  const location = isStandIn ? { ...config.database, path: ':memory:' } : config.database
  const now = Date.now
  const stores = await openStores({ ...config, database: location }, { now, steadyNow: now })
  const { database, writes, users } = stores
  const isDryRun = purpose === 'dry run'
  const maxConcurrent = Math.min(availableParallelism(), MAX_HASHING_THREADS)
  return {
    importer: createUserImporter({
      store: isDryRun
        ? createSqliteDryRunImportStore(database)
        : createSqliteUserImportStore({ database, writes, now }),
      rules: createUserRules(config),
      passwords: isDryRun ? undefined : createPasswordHasher({ maxConcurrent }),
    }),
    exporter: createUserExporter({ users, cursors: createCursors(signingKey(database, 'cursor')) }),
    close: () => stores.close(() => {}),
  }
}

async function requireCurrentSchema(config: Config): Promise<void> {
  const migrations = await readMigrationStatus(config)
  if (migrations.every(({ appliedAt }) => appliedAt !== undefined)) return
  throw refusedDatabase(config, 'its schema is older than this release: bring it up by `migrate`')
}

function refusedDatabase({ database }: Config, why: string): OperatorError {
  return new OperatorError([problemWith('DATABASE_URL', database.url, why)])
}

interface LimiterParts extends WiringOptions {
  readonly limits: CheckedLimits
  readonly database: Database
  readonly writes: WriteQueue
  readonly steadyNow: () => number
}

const monotonicClock = () => performance.now()

/**
 * The time of the start, and what has gone by since: milliseconds since the epoch that do not jump when the clock of the
 * machine is set, so that what is kept for a day is neither dropped nor kept for longer.
 */
function createSteadyClock(options: WiringOptions): () => number {
  const { now = Date.now, monotonicNow = monotonicClock } = options
  const offset = now() - monotonicNow()
  return () => Math.floor(offset + monotonicNow())
}

interface OpenLimits {
  readonly limiter: Limiter
  readonly bans: BanList
}

async function openLimits(parts: LimiterParts): Promise<OpenLimits> {
  const { config, log, database, writes, steadyNow, watch, now = Date.now } = parts
  const limits = watch?.rules(parts.limits) ?? parts.limits
  const monotonicNow = parts.monotonicNow ?? monotonicClock
  const counters =
    config.cacheStore === 'memory' ? createMemoryCounterStore({ monotonicNow }) : undefined
  const store = counters && (watch?.store(counters) ?? counters)
  /** A client whose ban is lifted begins anew, also where another process banned it and this one had counted too. */
  const forgetStrikes = async (rule: string, clientKey: string) => {
    try {
      await store?.reset(counterKey('ban', rule, clientKey))
    } catch (err) {
      log.error({ err, rule }, 'strikes before a ban could not be forgotten')
    }
  }
  const bans = await openBanList({
    // Ended by both clocks: neither a jump of the one nor a machine that slept takes a ban away.
    store: createSqliteBanStore({ database, writes, now: () => Math.min(steadyNow(), now()) }),
    now,
    monotonicNow,
    onStoreFailure: err => log.error({ err }, 'a ban could not be kept for the next start'),
    onReadFailure: err => log.error({ err }, 'bans cannot be read again, those of before stay'),
    onForeignChange: forgetStrikes,
  })
  // Not at the top: the list of public suffixes takes 5 MB and 50 ms of a start, which a service without limits saves.
  const { createLimiter } = await import('./limits/limiter.ts')
  return { limiter: createLimiter({ limits, store, bans, log, now, monotonicNow }), bans }
}

/** Throws `OperatorError` with a line for each mistake in the file that LIMITS_FILE names. */
export async function readLimits(path: string): Promise<CheckedLimits> {
  try {
    return await loadLimits(path)
  } catch (error) {
    if (!(error instanceof LimitsRefused)) throw error
    throw new OperatorError(error.mistakes.map(mistake => mistakeIn('LIMITS_FILE', path, mistake)))
  }
}

async function reloadLimits(
  { limitsFile }: Config,
  limiter: Limiter | undefined,
  log: Logger,
): Promise<void> {
  if (limitsFile === undefined || limiter === undefined) {
    log.info('nothing to read again: LIMITS_FILE is not set')
    return
  }
  try {
    log.info(limiter.replace(await loadLimits(limitsFile)), 'limits read again')
  } catch (err) {
    const reason = err instanceof LimitsRefused ? { mistakes: err.mistakes } : { err }
    log.error(reason, 'limits are wrong, those of before stay')
  }
}

/** The bans of a database that is there, for a command; a service that runs on it obeys. */
export interface OpenBans {
  readonly store: BanStore
  close(): Promise<void>
}

/** Throws `OperatorError` when the database is not there or cannot be opened. */
export async function openBans(config: Config): Promise<OpenBans> {
  const database = await openDatabase(config, Date.now, { mustExist: true })
  const writes = createWriteQueue(database, createReadView(database))
  return {
    store: createSqliteBanStore({ database, writes, now: Date.now }),
    close: async () => {
      await writes.close()
      database.close()
    },
  }
}

/** Throws `OperatorError` when the database cannot be migrated. */
export async function migrateDatabase(config: Config): Promise<void> {
  const database = await openDatabase(config, Date.now)
  database.close()
}

/** Throws `OperatorError` when there is a database and it cannot be read. */
export function readMigrationStatus({ database }: Config): Promise<readonly MigrationStatus[]> {
  return namingTheSetting(database, () => migrationStatus(database.path))
}

interface FileWork extends WorkOptions {
  readonly file: string
}

/** Throws `OperatorError` when there is no backup then but what was in `file` before. */
export function backUp({ database }: Config, { file, ...options }: FileWork): Promise<Backup> {
  return namingTheFile(database, () =>
    backupDatabase({ ...options, path: database.path, target: resolve(file) }),
  )
}

/** Throws `OperatorError` when the database is as it was. */
export function restoreFrom(
  { database }: Config,
  { file, ...options }: FileWork,
): Promise<Restored> {
  return namingTheFile(database, () =>
    restoreDatabase({ ...options, path: database.path, backup: resolve(file), now: Date.now }),
  )
}

/** What is wrong with the database. Throws `OperatorError` when it cannot be looked at. */
export function checkStorage({ database }: Config, options: WorkOptions): Promise<Examination> {
  return namingTheFile(database, async () => {
    try {
      return await checkDatabase(database.path, options)
    } catch (error) {
      if (!(error instanceof DatabaseRefused && error.isFault)) throw error
      return { faults: [error.message], applied: 0, pending: [] }
    }
  })
}

async function namingTheFile<T>({ url }: DatabaseLocation, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof DatabaseRefused)) throw error
    const line =
      error.file === undefined
        ? mistakeIn('DATABASE_URL', url, error.message)
        : `${JSON.stringify(error.file)}: ${error.message}`
    throw new OperatorError([line], { cause: error })
  }
}

function openDatabase({ database }: Config, now: () => number, { mustExist = false } = {}) {
  return namingTheSetting(database, () => openSqlite({ path: database.path, now, mustExist }))
}

async function namingTheSetting<T>({ url }: DatabaseLocation, open: () => Promise<T>): Promise<T> {
  try {
    return await open()
  } catch (error) {
    if (!(error instanceof DatabaseRefused)) throw error
    throw new OperatorError([problemWith('DATABASE_URL', url, error.message)])
  }
}
