import type { BanStore } from '../../limits/ban-store.ts'
import { BAN_COLUMNS, type BanRow, createBanStore } from '../create-ban-store.ts'
import type { SqliteParts } from './sqlite-statements.ts'

const UPSERT = `
  INSERT INTO bans (rule, client_key, ends_at, lasts_ms) VALUES ($1, $2, $3, $4)
  ON CONFLICT (rule, client_key)
  DO UPDATE SET ends_at = excluded.ends_at, lasts_ms = excluded.lasts_ms
  WHERE $5 OR ends_at <= $6
  RETURNING 1`

/** More than a ban adds, and few, because hundreds of bans may share a transaction, which blocks the thread. */
const DELETE_SOME_ENDED = `
  DELETE FROM bans WHERE (rule, client_key) IN (
    SELECT rule, client_key FROM bans WHERE ends_at <= $1 ORDER BY ends_at LIMIT 10)`

/** A number that grows when another connection has committed anything: https://sqlite.org/pragma.html#pragma_data_version */
const SELECT_DATA_VERSION = `PRAGMA data_version`

/** The same for two states of the table with the same number of bans and the same sum of their ends in milliseconds. */
const SELECT_SUMMARY = `SELECT count(*) || ' ' || coalesce(sum(ends_at), 0) FROM bans`

/** Bans in SQLite. Saving a ban deletes some of those that have ended. */
export function createSqliteBanStore(
  parts: Pick<SqliteParts, 'statements' | 'writes' | 'now' | 'steadyNow'>,
): BanStore {
  const { writes, now, steadyNow } = parts
  const { read, run } = parts.statements
  let dataVersion: unknown
  let revision = ''
  /** Others may undo what this process has done since the last summary, which is then the same again. */
  let ownWrites = 0

  return createBanStore({
    // A ban has ended once both clocks say so: neither a clock that jumps nor a machine that slept shortens it.
    now: () => Math.min(steadyNow(), now()),
    table: {
      read,

      save: ({ rule, clientKey, endsAt, lastsMs }, { now, replaces }) =>
        writes.run(() => {
          ownWrites++
          run(DELETE_SOME_ENDED, [now])
          const values = [rule, clientKey, endsAt, lastsMs, Number(replaces), now]
          return run(UPSERT, values).length > 0
        }),

      deleteWhere: (condition, values) =>
        writes.run(() => {
          ownWrites++
          return run<BanRow>(`DELETE FROM bans WHERE ${condition} RETURNING ${BAN_COLUMNS}`, values)
        }),

      revision: async () => {
        const [[version] = []] = await read(SELECT_DATA_VERSION)
        if (version === dataVersion) return revision
        const [[found] = []] = await read(SELECT_SUMMARY)
        dataVersion = version
        revision = `${found} ${ownWrites}`
        return revision
      },

      toStored: text => text,
      fromStored: stored => stored,
      inUtf8: stored => stored,
    },
  })
}
