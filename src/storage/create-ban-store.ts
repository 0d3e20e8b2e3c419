import type { Ban, BanQuery, BanSelection, BanStore } from '../limits/ban-store.ts'
import { nextTurn } from '../timers.ts'
import type { SharedStatements } from './storage.ts'

/** A ban of an older release on SQLite has no length, and gets one of decades. */
export const BAN_COLUMNS = 'rule, client_key, ends_at, coalesce(lasts_ms, ends_at)'

export type BanRow = readonly [rule: string, clientKey: string, endsAt: number, lastsMs: number]

/** The table `bans` of one engine. */
export interface BanTable extends Pick<SharedStatements, 'read'> {
  /** As that of `BanStore`, for a ban with whole milliseconds. Deletes some of those that have ended at `now`. */
  save(ban: Ban, how: { readonly now: number; readonly replaces: boolean }): Promise<boolean>
  /** Deletes the bans that meet a condition in SQL, and returns `BAN_COLUMNS` of each. */
  deleteWhere(condition: string, values: readonly unknown[]): Promise<BanRow[]>
  readonly revision: BanStore['revision']
  /** What to add to `steadyNow` for the clock of `BanStore`. */
  clockOffset(): Promise<number>
  /** A text as the table keeps it, and back. */
  toStored(text: string): string
  fromStored(stored: string): string
  /** SQL that sorts stored texts as the UTF-8 of the texts. */
  inUtf8(stored: string): string
}

export interface BanStoreOptions {
  readonly table: BanTable
  readonly steadyNow: () => number
}

/** Reading this many takes some milliseconds. */
const PAGE_ROWS = 1000

function selectPage(place: string): string {
  return `
    SELECT ${BAN_COLUMNS} FROM bans WHERE ${place}
    ORDER BY ends_at, rule, client_key LIMIT ${PAGE_ROWS}`
}

const SELECT_FIRST_PAGE = selectPage('ends_at > $1')

/** The first condition is for the index, which SQLite does not use for the second. */
const SELECT_NEXT_PAGE = selectPage('ends_at >= $1 AND (ends_at, rule, client_key) > ($1, $2, $3)')

/** Bans in the table `bans` of either engine. */
export function createBanStore({ table, steadyNow }: BanStoreOptions): BanStore {
  const { read, save, deleteWhere, revision, toStored, fromStored, inUtf8 } = table

  let offset: number | undefined

  /** A whole number, as the tables have. Its first answer decides: what is in memory must end by the same clock. */
  async function now(): Promise<number> {
    offset ??= await table.clockOffset()
    return Math.floor(steadyNow() + offset)
  }

  async function* load(): AsyncIterable<readonly Ban[]> {
    let page = await read<BanRow>(SELECT_FIRST_PAGE, [await now()])
    for (;;) {
      yield page.map(toBan)
      const last = page[PAGE_ROWS - 1]
      if (last === undefined) return
      await nextTurn()
      const [rule, clientKey, endsAt] = last
      page = await read<BanRow>(SELECT_NEXT_PAGE, [endsAt, rule, clientKey])
    }
  }

  function toBan([rule, clientKey, endsAt, lastsMs]: BanRow): Ban {
    return { rule: fromStored(rule), clientKey: fromStored(clientKey), endsAt, lastsMs }
  }

  /** The conditions of a selection. Their values are added to `values`. */
  function conditionsOf({ rule, clientKeys }: BanSelection, values: unknown[]): string[] {
    const conditions: string[] = []
    if (rule !== undefined) conditions.push(`rule = $${values.push(toStored(rule))}`)
    if (clientKeys !== undefined) {
      const places = clientKeys.map(key => `$${values.push(toStored(key))}`)
      conditions.push(places.length === 0 ? 'false' : `client_key IN (${places.join(', ')})`)
    }
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
        `SELECT ${BAN_COLUMNS} FROM bans WHERE ends_at > $1 AND ${conditions.join(' AND ')}
        ORDER BY ${inUtf8('rule')}, ${inUtf8('client_key')} LIMIT $2`,
        values,
      )
      return { bans: rows.slice(0, query.limit).map(toBan), hasMore: rows.length > query.limit }
    },

    // Rules allow fractions of a millisecond, the tables only whole ones.
    save: async ({ endsAt, lastsMs, ...ban }, { replaces } = { replaces: true }) =>
      save(
        { ...ban, endsAt: Math.ceil(endsAt), lastsMs: Math.ceil(lastsMs) },
        { now: await now(), replaces },
      ),

    lift: async selection => {
      const values: unknown[] = []
      const condition = conditionsOf(selection, values).join(' AND ') || 'true'
      const deleted = (await deleteWhere(condition, values)).map(toBan)
      const instant = await now()
      return deleted
        .filter(({ endsAt }) => endsAt > instant)
        .sort((one, other) => one.endsAt - other.endsAt)
    },

    revision,
  }
}
