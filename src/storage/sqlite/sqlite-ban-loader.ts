import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Ban, BanStore } from '../../limits/ban-store.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'

export interface SqliteBanLoaderOptions {
  readonly database: Database
  /** Milliseconds since the epoch. Bans that end before this time are treated as ended. */
  readonly now: () => number
}

/** A ban without `lasts_ms` gets a length of decades. */
export const BAN_COLUMNS =
  'rule, client_key AS clientKey, ends_at AS endsAt, coalesce(lasts_ms, ends_at) AS lastsMs'

/** Reading a page takes some milliseconds, and reading 100,000 bans a fifth of a second. */
const PAGE_ROWS = 1000

const SELECT_PAGE = `
  SELECT ${BAN_COLUMNS} FROM bans
  WHERE ends_at > @now AND (ends_at, rule, client_key) > (@endsAt, @rule, @clientKey)
  ORDER BY ends_at, rule, client_key LIMIT ${PAGE_ROWS}`

/** Reads the bans in the table `bans`, in pages. */
export function createSqliteBanLoader({ database, now }: SqliteBanLoaderOptions): BanStore['load'] {
  const selectPage = database.prepare<[Ban & { now: number }], Ban>(SELECT_PAGE)

  return async function* load(): AsyncIterable<readonly Ban[]> {
    let last: Ban = { rule: '', clientKey: '', endsAt: 0, lastsMs: 0 }
    for (;;) {
      const page = readBans(() => selectPage.all({ ...last, now: now() }))
      yield page
      const end = page[PAGE_ROWS - 1]
      if (end === undefined) return
      last = end
      await nextTurn()
    }
  }
}

/** Runs a query about bans. Throws `storage_unavailable` or `storage_damaged` if the database cannot be used. */
export function readBans<T>(query: () => T): T {
  try {
    return query()
  } catch (error) {
    throw translateSqliteError(error)
  }
}
