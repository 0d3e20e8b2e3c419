import type { Database } from 'better-sqlite3'
import type { Ban, BanStore } from '../limits/ban-list.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteBanStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

const SELECT = `
  SELECT rule, client_key AS clientKey, ends_at AS endsAt FROM bans WHERE ends_at > ?
  ORDER BY ends_at`

const UPSERT = `
  INSERT INTO bans (rule, client_key, ends_at) VALUES (@rule, @clientKey, @endsAt)
  ON CONFLICT (rule, client_key) DO UPDATE SET ends_at = excluded.ends_at`

const DELETE_ENDED = `DELETE FROM bans WHERE ends_at <= ?`

/** Bans in the table `bans`. Each ban that is added takes away those that have ended. */
export function createSqliteBanStore(options: SqliteBanStoreOptions): BanStore {
  const { database, writes, now } = options
  const select = database.prepare<[number], Ban>(SELECT)
  const upsert = database.prepare(UPSERT)
  const deleteEnded = database.prepare(DELETE_ENDED)
  return {
    load: async () => select.all(now()),
    save: ban =>
      writes.run(() => {
        deleteEnded.run(now())
        upsert.run(ban)
      }),
  }
}
