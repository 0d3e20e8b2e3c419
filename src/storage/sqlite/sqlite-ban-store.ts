import type { BanStore } from '../../limits/ban-store.ts'
import { BAN_COLUMNS, type BanRow, createBanStore } from '../create-ban-store.ts'
import {
  createSqliteSharedStatements,
  type SqliteSharedStatements,
  type SqliteTableOptions,
} from './sqlite-shared-statements.ts'

export interface SqliteBanStoreOptions extends SqliteTableOptions {
  /** Milliseconds since the epoch. Bans that end before this time are treated as ended. */
  readonly now: () => number
}

const UPSERT = `
  INSERT INTO bans (rule, client_key, ends_at, lasts_ms) VALUES ($1, $2, $3, $4)
  ON CONFLICT (rule, client_key)
  DO UPDATE SET ends_at = excluded.ends_at, lasts_ms = excluded.lasts_ms`

/** More than a ban adds, and few, because hundreds of bans may share a transaction, which blocks the thread. */
const DELETE_SOME_ENDED = `
  DELETE FROM bans WHERE (rule, client_key) IN (
    SELECT rule, client_key FROM bans WHERE ends_at <= $1 ORDER BY ends_at LIMIT 10)`

/** A number that grows when another connection has committed anything: https://sqlite.org/pragma.html#pragma_data_version */
const SELECT_DATA_VERSION = `PRAGMA data_version`

/** The same for two states of the table with the same number of bans and the same sum of their ends in milliseconds. */
const SELECT_SUMMARY = `SELECT count(*) || ' ' || coalesce(sum(ends_at), 0) FROM bans`

/** Bans in SQLite. Saving a ban deletes some of those that have ended. */
export function createSqliteBanStore({ now, ...options }: SqliteBanStoreOptions): BanStore {
  const { writes } = options
  const statements = createSqliteSharedStatements(options)
  const { read, run } = statements
  const changes = createForeignChanges(statements)

  /** Runs a write that does not count as one of others. */
  function write<T>(work: () => T): Promise<T> {
    return writes.run(() => {
      changes.noteOwn()
      return work()
    })
  }

  return createBanStore({
    now,
    table: {
      read,

      save: ({ rule, clientKey, endsAt, lastsMs }, instant) =>
        write(() => {
          run(DELETE_SOME_ENDED, [instant])
          run(UPSERT, [rule, clientKey, endsAt, lastsMs])
        }),

      deleteWhere: (condition, values) =>
        write(() =>
          run<BanRow>(`DELETE FROM bans WHERE ${condition} RETURNING ${BAN_COLUMNS}`, values),
        ),

      revision: changes.revision,
      toStored: text => text,
      fromStored: stored => stored,
      inUtf8: stored => stored,
    },
  })
}

/** Notices changes of the bans by other connections. */
function createForeignChanges({ read }: Pick<SqliteSharedStatements, 'read'>) {
  let dataVersion: unknown
  let summary: unknown
  let changes = 0
  /** Whether this process has written since the summary was read. A new summary then does not prove that another has. */
  let hasWritten = false

  return {
    noteOwn: () => {
      hasWritten = true
    },

    revision: async () => {
      const [[version] = []] = await read(SELECT_DATA_VERSION)
      if (version === dataVersion) return String(changes)
      const [[found] = []] = await read(SELECT_SUMMARY)
      if (hasWritten || found !== summary) changes++
      hasWritten = false
      summary = found
      dataVersion = version
      return String(changes)
    },
  }
}
