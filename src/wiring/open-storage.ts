import type { Config } from '../config.ts'
import type { DatabaseLocation } from '../config-values.ts'
import { createPostgresEngine } from '../storage/postgres/postgres-storage.ts'
import { createSqliteEngine } from '../storage/sqlite/sqlite-storage.ts'
import type { Writer } from '../storage/sqlite/writer/start-writer.ts'
import type {
  OpenStorageOptions,
  ServiceStorage,
  Storage,
  StorageEngine,
} from '../storage/storage.ts'
import type { Calls } from '../workers/calls.ts'
import { blameFile, blameSetting } from './blame-setting.ts'
import { createClocks } from './clocks.ts'

export interface ServiceStorageOptions
  extends Pick<
    OpenStorageOptions,
    'now' | 'steadyNow' | 'onWarning' | 'onIndexing' | 'waitsUntilReachable'
  > {
  /** Calls to the first process, which has called `prepareStorage`, if this is one of several workers. */
  readonly firstProcess?: Calls | undefined
}

/**
 * Opens the database for a service, and creates it if it is missing. Throws `OperatorError`, which says what
 * DATABASE_URL may be.
 */
export function openStorage(
  { database, maxWaitingWrites }: Config,
  { firstProcess, ...options }: ServiceStorageOptions,
): Promise<ServiceStorage> {
  return blameSetting(database, async () => {
    if (database.kind === 'postgres' || firstProcess === undefined) {
      return engineOf(database).open({ maxWaitingWrites, ifMissing: 'create', ...options })
    }
    const { openWorkerStorage } = await import('../storage/sqlite/writer/open-worker-storage.ts')
    return openWorkerStorage({ path: database.path, firstProcess, maxWaitingWrites, ...options })
  })
}

/**
 * Creates or migrates the database in the first process, before its workers open it. With SQLite, which allows one writer at
 * a time, it returns the one that writes for all workers. Throws `OperatorError` as `openStorage` does.
 */
export function prepareStorage(
  { database, maxWaitingWrites }: Config,
  options: Pick<OpenStorageOptions, 'now' | 'steadyNow' | 'onWarning' | 'onIndexing'>,
): Promise<Writer | undefined> {
  return blameSetting(database, async () => {
    if (database.kind === 'sqlite') {
      const { startWriter } = await import('../storage/sqlite/writer/start-writer.ts')
      return startWriter({ path: database.path, ...options })
    }
    const storage = await engineOf(database).open({
      maxWaitingWrites,
      ifMissing: 'create',
      ...options,
    })
    await storage.close()
    return undefined
  })
}

export interface CommandStorageOptions extends Pick<OpenStorageOptions, 'mustPersist' | 'isBulk'> {
  /** What to do without a database: create it, refuse, or use an empty one that is deleted when it closes. */
  readonly ifMissing: OpenStorageOptions['ifMissing'] | 'use empty'
}

/** Opens the database for a command, whether or not a service is running. Throws `OperatorError`. */
export function openStorageForCommand(
  { database, maxWaitingWrites }: Config,
  { ifMissing, ...options }: CommandStorageOptions,
): Promise<Storage> {
  const { now, steadyNow } = createClocks()
  const shared = { now, steadyNow, maxWaitingWrites, ...options }
  return blameFile(database, async () => {
    const engine = engineOf(database)
    if (ifMissing !== 'use empty') return engine.open({ ...shared, ifMissing })
    return (await engine.exists())
      ? engine.open({ ...shared, ifMissing: 'refuse' })
      : createSqliteEngine(':memory:').open({ ...shared, ifMissing: 'create' })
  })
}

/** Whether the database is lost when the process ends. */
export function isInMemory({ database }: Config): boolean {
  return engineOf(database).isInMemory
}

/** Whether a path leads to a file of the database, also through a link. The file need not exist. */
export function isFileOfDatabase(path: string, { database }: Pick<Config, 'database'>): boolean {
  return engineOf(database).ownsFile(path)
}

/** A new engine needs one more case here and in `createDatabaseTasks`. */
function engineOf(location: DatabaseLocation): StorageEngine {
  switch (location.kind) {
    case 'sqlite':
      return createSqliteEngine(location.path)
    case 'postgres':
      return createPostgresEngine(location)
  }
}
