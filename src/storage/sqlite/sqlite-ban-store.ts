import type { BanStore } from '../../limits/ban-store.ts'
import { BAN_COLUMNS, type BanRow, createBanStore } from '../create-ban-store.ts'
import { createBanClock } from './ban-clock.ts'
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

/** Triggers write a new one with each change. */
const SELECT_MARK = `SELECT mark FROM ban_changes`

/** Bans in SQLite. Saving a ban deletes some of those that have ended. */
export function createSqliteBanStore(
  parts: Pick<SqliteParts, 'statements' | 'writes' | 'steadyNow' | 'uptimeNow'>,
): BanStore {
  const { writes, steadyNow } = parts
  const { read, run } = parts.statements
  /** The last mark that this process has read or made. */
  let knownMark: unknown
  let revision = ''

  /** Changes bans without changing the revision, unless others have changed some before. */
  function change<T>(work: () => T): Promise<T> {
    return writes.run(() => {
      const isKnown = run(SELECT_MARK)[0]?.[0] === knownMark
      const result = work()
      if (isKnown) knownMark = run(SELECT_MARK)[0]?.[0]
      return result
    })
  }

  return createBanStore({
    steadyNow,
    table: {
      read,

      save: ({ rule, clientKey, endsAt, lastsMs }, { now, replaces }) =>
        change(() => {
          run(DELETE_SOME_ENDED, [now])
          const values = [rule, clientKey, endsAt, lastsMs, Number(replaces), now]
          return run(UPSERT, values).length > 0
        }),

      deleteWhere: (condition, values) =>
        change(() =>
          run<BanRow>(`DELETE FROM bans WHERE ${condition} RETURNING ${BAN_COLUMNS}`, values),
        ),

      revision: async () => {
        const [[mark] = []] = await read(SELECT_MARK)
        if (mark !== knownMark) revision = String(mark)
        knownMark = mark
        return revision
      },

      clockOffset: createBanClock(parts),

      toStored: text => text,
      fromStored: stored => stored,
      inUtf8: stored => stored,
    },
  })
}
