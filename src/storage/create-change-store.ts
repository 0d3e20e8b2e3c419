import { ServiceError } from '../errors.ts'
import {
  type ChangePage,
  type ChangePosition,
  isAfter,
  type UserChange,
  type UserChanges,
} from '../users/user-changes.ts'
import type { UserJson } from '../users/user-repository.ts'
import { ask, type Program } from './programs.ts'
import type { SharedStatements } from './storage.ts'

type Place = Pick<ChangePosition, 'key' | 'id'>

/** What the engines do differently with the tables `user_changes` and `user_feed`. */
export interface ChangeDialect {
  /** Runs a statement that only reads. The same name has always the same text. */
  query<R extends readonly unknown[]>(
    name: string,
    sql: string,
    values: readonly unknown[],
  ): Promise<R[]>
  /** What has the table `user_feed`, and one row. The following SQL may use its columns. */
  readonly feed: string
  /** SQL for the state of the feed: `ready`, or what `makeReady` gets. */
  readonly state: string
  /** SQL for the mark of the feed; another text where it is to have another one. */
  readonly mark: string
  /** SQL for a number before which no change comes from now on. */
  readonly oldest: string
  /** SQL for a number that no change has reached. */
  readonly next: string
  /** SQL for whether a change is shown. None can come before one that is. */
  readonly isShown: string
  /** SQL for a user of the table `users` as clients see it. */
  readonly representation: string
  /** SQL for the time, as triggers write it. */
  readonly now: string
  /** Throws if the feed cannot be told in this state. */
  makeReady(state: string | null): Promise<unknown>
}

const COUNT_DELETIONS = `SELECT count(*) FROM user_changes WHERE deleted_at IS NOT NULL`

/** Deletions that one transaction forgets. */
const DELETIONS_A_TIME = 500

/** The place before all changes. */
const BEGINNING: Place = { key: '0', id: 0 }

type Deletion = readonly [key: string, id: number, deletedAt: string]

// In ORDER BY, a name without its table would be the text, which sorts 1000 before 999.
const selectDeletions = (direction: 'ASC' | 'DESC', limit: number, condition = 'true') => `
  SELECT CAST(changed_in AS text), id, deleted_at FROM user_changes
  WHERE deleted_at <= $1 AND ${condition}
  ORDER BY user_changes.changed_in ${direction}, id ${direction} LIMIT ${limit}`

const SELECT_LAST_DELETION = selectDeletions('DESC', 1)

/** Those at the end. Earlier ones go with the next deletion whose date has come. */
const DATE_BACK = `
  UPDATE user_changes SET deleted_at = $1
  WHERE deleted_at > $1 AND (changed_in, id) > (CAST($2 AS bigint), $3)`

const NOTE_FORGOTTEN = `
  UPDATE user_feed SET forgotten_in = CAST($1 AS bigint), forgotten_id = $2
  WHERE (forgotten_in, forgotten_id) < (CAST($1 AS bigint), $2)`

const FORGET = `
  DELETE FROM user_changes
  WHERE deleted_at IS NOT NULL AND (changed_in, id) <= (CAST($1 AS bigint), $2)`

/** Without a change, the columns before the state are null. */
type PageRow = readonly [
  id: number | null,
  key: string,
  json: UserJson | null,
  deletedAt: string | null,
  state: string | null,
  mark: string,
  forgottenKey: string,
  forgottenId: number,
  oldest: string,
  next: string,
]

/**
 * Changes, and the feed in each row, all of one moment. The feed is made once for all rows: its limit keeps it apart. A user that is
 * gone without a recorded deletion, because triggers were off, is deleted as of now. For a bare parameter after LIMIT, SQLite would
 * prepare the statement again each time.
 */
const selectPage = (dialect: ChangeDialect) => `
  SELECT changes.id, key, CASE WHEN deleted_at IS NULL THEN json END,
    coalesce(deleted_at, CASE WHEN json IS NULL THEN ${dialect.now} END), feed.*
  FROM (
    SELECT ${dialect.state} AS state, mark, CAST(forgotten_in AS text) AS forgotten_key, forgotten_id,
      CAST(${dialect.oldest} AS text) AS oldest, CAST(${dialect.next} AS text) AS next
    FROM ${dialect.feed} LIMIT 1
  ) AS feed LEFT JOIN (
    SELECT id, CAST(changed_in AS text) AS key, deleted_at,
      (SELECT ${dialect.representation} FROM users WHERE users.id = user_changes.id) AS json
    FROM user_changes WHERE (changed_in, id) > (CAST($1 AS bigint), $2) AND ${dialect.isShown}
    ORDER BY user_changes.changed_in, id LIMIT $3 + 0
  ) AS changes ON true`

const selectLast = ({ feed, mark, isShown }: ChangeDialect) => `
  SELECT ${mark}, coalesce(CAST(changed_in AS text), '0'), coalesce(id, 0)
  FROM ${feed} LEFT JOIN (
    SELECT changed_in, id FROM user_changes WHERE ${isShown}
    ORDER BY changed_in DESC, id DESC LIMIT 1) AS newest ON true`

/** The feed of either engine. */
export function createChangeStore(
  { read, transaction }: Pick<SharedStatements, 'read' | 'transaction'>,
  dialect: ChangeDialect,
): UserChanges {
  const { query, isShown, makeReady } = dialect
  const SELECT_FIRST_DELETIONS = selectDeletions('ASC', DELETIONS_A_TIME, isShown)
  const SELECT_PAGE = selectPage(dialect)
  const SELECT_LAST = selectLast(dialect)

  async function readPage({ key, id }: Place, limit: number): Promise<readonly PageRow[]> {
    const rows = await query<PageRow>('read_changes', SELECT_PAGE, [key, id, limit + 1])
    const [first] = rows
    if (first === undefined) throw new Error('the row of user_feed is missing')
    const [, , , , state] = first
    if (state === 'ready') return rows
    await makeReady(state)
    return readPage({ key, id }, limit)
  }

  async function last(): Promise<ChangePosition> {
    type LastRow = readonly [mark: string, key: string, id: number]
    const [[mark, key, id] = ['', '0', 0]] = await query<LastRow>(
      'read_last_change',
      SELECT_LAST,
      [],
    )
    return { mark, key, id, since: '0' }
  }

  function* forget(before: string, now: string): Program<boolean> {
    const [[lastKey, lastId] = ['0', 0]] = yield* ask<Deletion>(SELECT_LAST_DELETION, [now])
    yield* ask(DATE_BACK, [now, lastKey, lastId])
    const first = yield* ask<Deletion>(SELECT_FIRST_DELETIONS, [now])
    const kept = first.findIndex(([, , deletedAt]) => deletedAt >= before)
    const old = kept < 0 ? first : first.slice(0, kept)
    const newest = old.at(-1)?.slice(0, 2)
    if (newest === undefined) return false
    yield* ask(NOTE_FORGOTTEN, newest)
    yield* ask(FORGET, newest)
    return old.length === DELETIONS_A_TIME
  }

  return {
    read: async (after, limit) => {
      const start = after === 'now' ? await last() : (after ?? BEGINNING)
      const rows = await readPage(start, limit)
      const [, , , , , mark, key, id, oldest, next] = rows[0] as PageRow
      const isNew = after === undefined || after === 'now'
      const from = isNew ? { ...start, mark, since: oldest } : after
      const forgotten = { key, id }
      if (from.mark !== mark || isExpired(from, { forgotten, next })) {
        throw new ServiceError('cursor_expired')
      }
      return toPage(rows, { from, forgotten, limit })
    },

    last,

    forgetDeletions: ({ before, now }) => {
      const program = () => forget(new Date(before).toISOString(), new Date(now).toISOString())
      return transaction(program, { writes: 0 })
    },

    countDeletions: async () => {
      const [[count] = [0]] = await read<[number]>(COUNT_DELETIONS, [], { isLong: true })
      return count
    },
  }
}

/** Whether a position is before a forgotten deletion that its reader needs, or beyond the last change. */
function isExpired(
  position: ChangePosition,
  { forgotten, next }: { readonly forgotten: Place; readonly next: string },
): boolean {
  const began = BigInt(position.since)
  if (BigInt(position.key) >= BigInt(next) || began > BigInt(next)) return true
  return began <= BigInt(forgotten.key) && isAfter(forgotten, position)
}

/**
 * A reader who has seen all changes no longer needs deletions that were forgotten meanwhile, whenever it began. So all such
 * readers continue from the same position, and share their next read.
 */
function toPage(
  rows: readonly PageRow[],
  { from, forgotten, limit }: { from: ChangePosition; forgotten: Place; limit: number },
): ChangePage {
  const changes = rows.slice(0, limit).flatMap(([id, key, json, deletedAt]): UserChange[] => {
    if (id === null) return []
    const position = { ...from, key, id }
    return [{ position, id, user: json ?? undefined, deletedAt: deletedAt ?? undefined }]
  })
  const last = changes.at(-1)?.position ?? from
  if (rows.length > limit) return { changes, next: last, hasMore: true }
  const next = isAfter(forgotten, last) ? { ...last, ...forgotten } : last
  return { changes, next: { ...next, since: '0' }, hasMore: false }
}
