import type { Database } from 'better-sqlite3'
import type { Config } from '../config.ts'
import { createReadView } from '../storage/read-view.ts'
import { openSqlite } from '../storage/sqlite.ts'
import { createWriteQueue, type WriteQueue } from '../storage/write-queue.ts'
import { createSqliteUserRepository } from '../users/sqlite-user-repository.ts'
import type { UserRepository } from '../users/user-repository.ts'
import { namingTheSetting } from './database-refusals.ts'

/** What keeps the users, open. */
export interface Stores {
  readonly database: Database
  readonly writes: WriteQueue
  readonly users: UserRepository
  /** Ends what is being written. What keeps the WAL from being put away is told, and no harm: the next start finds it. */
  close(onCheckpointFailure: (error: unknown) => void): Promise<void>
}

/** Throws `OperatorError` when the database cannot be opened. */
export async function openStores(
  config: Config,
  options: {
    readonly now: () => number
    readonly steadyNow: () => number
    /** As `openSqlite` has it. */
    readonly mustExist?: boolean
  },
): Promise<Stores> {
  const { now, steadyNow, mustExist = false } = options
  const database = await openDatabase(config, now, { mustExist })
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

/** The database of the settings, in the schema of this release. Throws `OperatorError`. */
export function openDatabase(
  { database }: Config,
  now: () => number,
  { mustExist = false } = {},
): Promise<Database> {
  return namingTheSetting(database, () => openSqlite({ path: database.path, now, mustExist }))
}
