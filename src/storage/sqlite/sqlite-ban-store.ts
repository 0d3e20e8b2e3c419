import type { Ban, BanSelection, BanStore } from '../../limits/ban-store.ts'
import { createSqliteBanLister } from './sqlite-ban-lister.ts'
import { BAN_COLUMNS, createSqliteBanLoader, readBans } from './sqlite-ban-loader.ts'
import type { Database } from './sqlite-driver.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteBanStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
  /** Milliseconds since the epoch. Bans that end before this time are treated as ended. */
  readonly now: () => number
}

const UPSERT = `
  INSERT INTO bans (rule, client_key, ends_at, lasts_ms)
  VALUES (@rule, @clientKey, @endsAt, @lastsMs)
  ON CONFLICT (rule, client_key)
  DO UPDATE SET ends_at = excluded.ends_at, lasts_ms = excluded.lasts_ms`

const DELETE_ENDED = `DELETE FROM bans WHERE ends_at <= ?`

const DELETE_SELECTED = `
  DELETE FROM bans
  WHERE (@rule IS NULL OR rule = @rule)
    AND (@clientKey IS NULL OR client_key = @clientKey)
  RETURNING ${BAN_COLUMNS}`

/** A number that grows when another connection has committed anything: https://sqlite.org/pragma.html#pragma_data_version */
const SELECT_DATA_VERSION = `PRAGMA data_version`

/** The same for two states of the table with the same number of bans and the same sum of their ends in milliseconds. */
const SELECT_SUMMARY = `SELECT count(*) || ' ' || coalesce(sum(ends_at), 0) FROM bans`

/** Bans in the table `bans`. Saving a ban deletes those that have ended. */
export function createSqliteBanStore(options: SqliteBanStoreOptions): BanStore {
  const { database, writes, now } = options
  const upsert = database.prepare(UPSERT)
  const deleteEnded = database.prepare(DELETE_ENDED)
  const deleteSelected = database.prepare<[object], Ban>(DELETE_SELECTED)
  const selectDataVersion = database.prepare<[], number>(SELECT_DATA_VERSION).pluck()
  const selectSummary = database.prepare<[], string>(SELECT_SUMMARY).pluck()
  let dataVersion: number | undefined
  let summary: string | undefined
  /** How often another connection has changed the bans. */
  let changes = 0
  /** Whether this process has written since the summary was read. A new summary then does not prove that another has. */
  let hasWritten = false

  function countChanges(): number {
    const version = selectDataVersion.get()
    if (version === dataVersion) return changes
    const before = summary
    summary = selectSummary.get()
    if (hasWritten || summary !== before) changes++
    hasWritten = false
    dataVersion = version
    return changes
  }

  function deleteSelection({ rule, clientKeys }: BanSelection): readonly Ban[] {
    hasWritten = true
    return (clientKeys ?? [null])
      .flatMap(clientKey => deleteSelected.all({ rule: rule ?? null, clientKey }))
      .filter(({ endsAt }) => endsAt > now())
      .sort((one, other) => one.endsAt - other.endsAt)
  }

  return {
    load: createSqliteBanLoader({ database, now }),

    list: createSqliteBanLister({ database, now }),

    save: ban =>
      writes.run(() => {
        hasWritten = true
        deleteEnded.run(now())
        // Rules allow fractions of a millisecond, the table only whole ones.
        upsert.run({ ...ban, endsAt: Math.ceil(ban.endsAt), lastsMs: Math.ceil(ban.lastsMs) })
      }),

    lift: selection => writes.run(() => deleteSelection(selection)),

    revision: async () => String(readBans(countChanges)),
  }
}
