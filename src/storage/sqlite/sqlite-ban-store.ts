import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Ban, BanQuery, BanSelection, BanStore } from '../../limits/ban-store.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { rememberStatements } from './sqlite-statements.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteBanStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
  /** Milliseconds since the epoch. Bans that end before this time are treated as ended. */
  readonly now: () => number
}

/** A ban without `lasts_ms` gets a length of decades. */
const BAN_COLUMNS =
  'rule, client_key AS clientKey, ends_at AS endsAt, coalesce(lasts_ms, ends_at) AS lastsMs'

/** Reading a page takes some milliseconds, and reading 100,000 bans a fifth of a second. */
const PAGE_ROWS = 1000

const SELECT_PAGE = `
  SELECT ${BAN_COLUMNS} FROM bans
  WHERE ends_at > @now AND (ends_at, rule, client_key) > (@endsAt, @rule, @clientKey)
  ORDER BY ends_at, rule, client_key LIMIT ${PAGE_ROWS}`

/** A query has one of eight forms for each number of client keys, which are few. */
const MAX_STATEMENTS = 50

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
    load: createLoad(options),

    list: createList(options),

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

/** Reads the bans in the table `bans`, in pages. */
function createLoad({ database, now }: SqliteBanStoreOptions): BanStore['load'] {
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

/** Lists the bans in the table `bans`, in the order of its primary key. */
function createList({ database, now }: SqliteBanStoreOptions): BanStore['list'] {
  const prepare = rememberStatements(database, MAX_STATEMENTS)

  return async query => {
    const { limit } = query
    const conditions = conditionsOf(query)
    const texts = conditions.map(({ sql }) => sql)
    const select = prepare(texts.join(), () => selectWhere(texts))
    const values = conditions.flatMap(condition => condition.values)
    const found = readBans(() => select.all(now(), ...values, limit + 1)) as Ban[]
    return { bans: found.slice(0, limit), hasMore: found.length > limit }
  }
}

interface Condition {
  readonly sql: string
  readonly values: readonly string[]
}

function conditionsOf({ rule, clientKeys, after }: BanQuery): readonly Condition[] {
  const conditions: Condition[] = []
  if (rule !== undefined) {
    // With a place in the order, the plus keeps SQLite from looking for the rule alone and reading its bans up to there.
    const isPlaced = after !== undefined && clientKeys === undefined
    conditions.push(
      isPlaced
        ? { sql: 'rule <= ? AND +rule = ?', values: [rule, rule] }
        : { sql: 'rule = ?', values: [rule] },
    )
  }
  if (after !== undefined) {
    const { rule: afterRule, clientKey } = after
    conditions.push({ sql: '(rule, client_key) > (?, ?)', values: [afterRule, clientKey] })
  }
  if (clientKeys !== undefined) {
    const places = clientKeys.map(() => '?').join(', ')
    conditions.push({ sql: `client_key IN (${places})`, values: clientKeys })
  }
  return conditions
}

function selectWhere(conditions: readonly string[]): string {
  return `
    SELECT ${BAN_COLUMNS} FROM bans
    WHERE ${['ends_at > ?', ...conditions].join(' AND ')}
    ORDER BY rule, client_key LIMIT ?`
}

/** Runs a query about bans. Throws `storage_unavailable` or `storage_damaged` if the database cannot be used. */
function readBans<T>(query: () => T): T {
  try {
    return query()
  } catch (error) {
    throw translateSqliteError(error)
  }
}
