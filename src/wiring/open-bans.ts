import type { Config } from '../config.ts'
import type { BanStore } from '../limits/ban-store.ts'
import { createReadView } from '../storage/read-view.ts'
import { createSqliteBanStore } from '../storage/sqlite-ban-store.ts'
import { createWriteQueue } from '../storage/write-queue.ts'
import { openDatabase } from './open-stores.ts'

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
