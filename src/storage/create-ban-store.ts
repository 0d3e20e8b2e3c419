import type { Ban, BanQuery, BanSelection, BanStore } from '../limits/ban-store.ts'
import { nextTurn } from '../platform/timers.ts'
import { joinCalls } from './join-calls.ts'
import { ask, type Program } from './programs.ts'
import type { SharedStatements } from './storage.ts'

/** What the engines do differently with the table `bans`. */
export interface BanDialect {
  /** The columns of the primary key. */
  readonly key: string
  /** Columns that only this engine has, each after a comma, and SQL for their values. */
  readonly ownColumns: { readonly names: string; readonly values: string }
  /** The function that returns the elements of an array in JSON as rows with the column `value`. */
  readonly jsonRows: string
  /** The function that returns where a text holds another one; 0 if it does not. */
  readonly placeOf: string
  /** Clauses that lock the rows of a SELECT; the second one leaves out those that another process has locked. */
  readonly lock: string
  readonly lockFree: string
  /** A text as the table keeps it, and back. */
  toStored(text: string): string
  fromStored(stored: string): string
  /** SQL that sorts stored texts as the UTF-8 of the texts. */
  inUtf8(stored: string): string
  /** SQL for the time of a change, by a clock that all processes share now. `instant` is SQL for the time by the clock of `BanStore`. */
  changeClock(instant: string): string
  /** What to add to `steadyNow` for the clock of `BanStore`. */
  clockOffset(): Promise<number>
}

export interface BanStoreOptions {
  readonly statements: SharedStatements
  readonly dialect: BanDialect
  readonly steadyNow: () => number
}

type BanRow = readonly [rule: string, clientKey: string, endsAt: number, lastsMs: number]

/** Reading this many takes some milliseconds. */
const PAGE_ROWS = 1000

/** How many that have ended are deleted with each ban, which is more than it adds, and at most with all bans of a transaction. */
const ENDED_A_BAN = 10
const MAX_ENDED = 1000

/** Bans that have ended stay for a minute, so that other processes, whose clocks differ a little, see them end by themselves. */
const ENDED_STAYS_MS = 60_000

/** Longer than a transaction waits to be committed, as a rule. What takes longer is found when all bans are read again. */
const RECENT_MS = 10_000

/** With more changes, reading all bans costs about the same. */
const MAX_RECENT = 10_000

const COLUMNS = 'rule, client_key, ends_at, lasts_ms'

/** Not lifted either. `$1` is the time. */
const IN_FORCE = 'ends_at > $1 AND lasts_ms > 0'

/** Those behind a place. The index is for the condition without a plus; SQLite does not use it for the last one. */
const SELECT_PAGE = `
  SELECT ${COLUMNS} FROM bans
  WHERE +ends_at > $1 AND lasts_ms > 0 AND ends_at >= $2 AND (ends_at, rule, client_key) > ($2, $3, $4)
  ORDER BY ends_at, rule, client_key LIMIT ${PAGE_ROWS}`

/** Bans in the table `bans` of either engine. Saving a ban deletes some of those that have ended. */
export function createBanStore({ statements, dialect, steadyNow }: BanStoreOptions): BanStore {
  const { read, transaction } = statements
  const { key, ownColumns, jsonRows, placeOf, lock, lockFree } = dialect
  const { toStored, fromStored, inUtf8, changeClock } = dialect
  /** The plus keeps SQLite from the index by end. */
  const SELECT_RECENT = `
    SELECT ${COLUMNS} FROM bans
    WHERE changed_at > ${changeClock('$1')} - ${RECENT_MS} AND +ends_at > $1 LIMIT ${MAX_RECENT + 1}`

  /** In the order of keys, so that two processes wait for each other in one direction only. */
  const UPSERT = `
    INSERT INTO bans (${COLUMNS}, changed_at${ownColumns.names})
    SELECT ${COLUMNS}, ${changeClock('$3')}${ownColumns.values} FROM (
      SELECT value ->> 0 AS rule, value ->> 1 AS client_key,
        CAST(value ->> 2 AS bigint) AS ends_at, CAST(value ->> 3 AS bigint) AS lasts_ms
      FROM ${jsonRows}($1)) AS added
    WHERE true ORDER BY ${key}
    ON CONFLICT (${key}) DO UPDATE
    SET ends_at = excluded.ends_at, lasts_ms = excluded.lasts_ms, changed_at = excluded.changed_at
    WHERE $2 = 1 OR bans.ends_at <= $3 OR bans.lasts_ms < 0
    RETURNING rule, client_key`

  /** Waits for nobody. For a bare parameter after LIMIT, SQLite would prepare the statement again each time. */
  const DELETE_SOME_ENDED = `
    DELETE FROM bans WHERE (${key}) IN (
      SELECT ${key} FROM bans WHERE ends_at <= $1 ORDER BY ends_at LIMIT $2 + 0 ${lockFree})`

  const liftInOrder = (condition: string) => `
    WITH selected AS (
      SELECT ${key} FROM bans WHERE ${IN_FORCE} AND ${condition} ORDER BY ${key} ${lock})
    UPDATE bans SET lasts_ms = -lasts_ms, changed_at = ${changeClock('$1')}
    WHERE (${key}) IN (SELECT ${key} FROM selected)
    RETURNING rule, client_key, ends_at, -lasts_ms`

  let offset: number | undefined

  /** A whole number, as the tables have. Its first answer decides: what is in memory must end by the same clock. */
  async function now(): Promise<number> {
    offset ??= await dialect.clockOffset()
    return Math.floor(steadyNow() + offset)
  }

  async function* load(): AsyncIterable<readonly Ban[]> {
    const instant = await now()
    let place: readonly unknown[] = [instant, '', '']
    for (;;) {
      const page: BanRow[] = await read<BanRow>(SELECT_PAGE, [instant, ...place])
      yield page.map(toBan)
      const last = page[PAGE_ROWS - 1]
      if (last === undefined) return
      await nextTurn()
      const [rule, clientKey, endsAt] = last
      place = [endsAt, rule, clientKey]
    }
  }

  function toBan([rule, clientKey, endsAt, lastsMs]: BanRow): Ban {
    return { rule: fromStored(rule), clientKey: fromStored(clientKey), endsAt, lastsMs }
  }

  /** Rules allow fractions of a millisecond, the tables only whole ones. */
  function toRow({ rule, clientKey, endsAt, lastsMs }: Ban): BanRow {
    return [toStored(rule), toStored(clientKey), Math.ceil(endsAt), Math.ceil(lastsMs)]
  }

  /** Of several bans of one client the last one counts, or, if none replaces another, the first. */
  function* upsert(bans: readonly Ban[], replaces: boolean, instant: number): Program<boolean[]> {
    const rows = bans.map(toRow)
    const added = new Map((replaces ? rows : rows.toReversed()).map(row => [keyOf(row), row]))
    const values = [JSON.stringify([...added.values()]), Number(replaces), instant]
    const saved = new Set((yield* ask<KeyColumns>(UPSERT, values)).map(keyOf))
    const before = instant - ENDED_STAYS_MS
    yield* ask(DELETE_SOME_ENDED, [before, Math.min(ENDED_A_BAN * bans.length, MAX_ENDED)])
    return rows.map(row => saved.has(keyOf(row)) && (replaces || added.get(keyOf(row)) === row))
  }

  function joinSaves(replaces: boolean) {
    return joinCalls<Ban, boolean>({
      run: async bans => {
        const instant = await now()
        const saved = await transaction(() => upsert(bans, replaces, instant), {
          writes: bans.length,
        })
        return saved.map(value => ({ value }))
      },
    })
  }

  const saveAnyway = joinSaves(true)
  const saveFirst = joinSaves(false)

  /** The conditions of a selection. Their values are added to `values`. */
  function conditionsOf(
    { rule, clientKeys, keyPart }: BanSelection & Pick<BanQuery, 'keyPart'>,
    values: unknown[],
  ): string[] {
    const conditions: string[] = []
    const ofClient: string[] = []
    if (rule !== undefined) conditions.push(`rule = $${values.push(toStored(rule))}`)
    if (clientKeys !== undefined) {
      const place = values.push(JSON.stringify(clientKeys.map(each => [toStored(each)])))
      ofClient.push(`client_key IN (SELECT value ->> 0 FROM ${jsonRows}($${place}))`)
    }
    if (keyPart !== undefined) {
      // As `lower` of both engines, which folds ASCII only.
      const part = toStored(keyPart).replace(/[A-Z]+/g, letters => letters.toLowerCase())
      ofClient.push(`${placeOf}(lower(client_key), $${values.push(part)}) > 0`)
    }
    if (ofClient.length > 0) conditions.push(`(${ofClient.join(' OR ')})`)
    return conditions
  }

  /** The condition for a place in the list. For one rule it lets SQLite seek by its primary key. */
  function placeCondition({ rule, after }: BanQuery, values: unknown[]): string {
    if (after === undefined) return 'true'
    const keyAfter = `$${values.push(toStored(after.clientKey))}`
    if (rule === after.rule) return `${inUtf8('client_key')} > ${inUtf8(keyAfter)}`
    const ruleAfter = `$${values.push(toStored(after.rule))}`
    const columns = `(${inUtf8('rule')}, ${inUtf8('client_key')})`
    return `${columns} > (${inUtf8(ruleAfter)}, ${inUtf8(keyAfter)})`
  }

  return {
    now,

    load,

    list: async query => {
      const values: unknown[] = [await now(), query.limit + 1]
      const conditions = [...conditionsOf(query, values), placeCondition(query, values)]
      const rows = await read<BanRow>(
        `SELECT ${COLUMNS} FROM bans WHERE ${IN_FORCE} AND ${conditions.join(' AND ')}
        ORDER BY ${inUtf8('rule')}, ${inUtf8('client_key')} LIMIT $2`,
        values,
      )
      return { bans: rows.slice(0, query.limit).map(toBan), hasMore: rows.length > query.limit }
    },

    save: (ban, { replaces } = { replaces: true }) => (replaces ? saveAnyway : saveFirst)(ban),

    lift: async selection => {
      const values: unknown[] = [await now()]
      const condition = conditionsOf(selection, values).join(' AND ') || 'true'
      const rows = await transaction(() => ask<BanRow>(liftInOrder(condition), values), {
        isLong: true,
      })
      return rows.map(toBan).sort((one, other) => one.endsAt - other.endsAt)
    },

    recent: async () => {
      const rows = await read<BanRow>(SELECT_RECENT, [await now()])
      return rows.length > MAX_RECENT ? undefined : rows.map(toBan)
    },
  }
}

type KeyColumns = readonly [rule: string, clientKey: string, ...unknown[]]

/** The same for two bans of the same rule and client. */
function keyOf([rule, clientKey]: KeyColumns): string {
  return JSON.stringify([rule, clientKey])
}
