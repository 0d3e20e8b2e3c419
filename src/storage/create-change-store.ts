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

/** A part of the feed, and the state of the feed, both of one moment. Keys are decimal digits. */
export interface FeedPart {
  readonly feed: {
    readonly mark: string
    /** Users up to this id may have been there before the feed. */
    readonly baseline: number
    /** All deletions up to this place may be forgotten. */
    readonly forgotten: Place
    /** All changes before this key can be seen. */
    readonly seenBefore: string
    /** No change has this key or a later one. */
    readonly end: string
  }
  readonly rows: readonly ChangeRow[]
}

/** A user of the feed. `key` is that of its position. */
export type ChangeRow = readonly [
  id: number,
  key: string | number,
  json: UserJson | null,
  deletedAt?: string | null,
]

/** What the engines do differently with the table `user_changes`. */
export interface ChangeDialect {
  /** Up to `BASELINE_ROWS` users from before the feed, or up to `limit` changes and one more. */
  readPart(after: Place & Pick<ChangePosition, 'phase'>, limit: number): Promise<FeedPart>
  last(): Promise<Place & Pick<ChangePosition, 'mark'>>
  /** The column with the keys of changes. */
  readonly key: string
  /** SQL for whether no change can come before a change. */
  readonly isSettled: string
  /** Sets the place up to which deletions are forgotten to $1 and $2, unless it is later. */
  readonly noteForgotten: string
}

/** With many users that have changed since, a page looks at this many and may show none of them. */
export const BASELINE_ROWS = 1000

const COUNT_DELETIONS = `SELECT count(*) FROM user_changes WHERE deleted_at IS NOT NULL`

/** Deletions that one transaction forgets. */
const DELETIONS_A_TIME = 500

/** The positions before all users, and before all changes. */
const BEFORE = { phase: 'before', key: '', id: 0 } as const
const BEGINNING = { phase: 'changes', key: '0', id: 0 } as const

type Deletion = readonly [key: string, id: number, deletedAt: string]

/** The feed of either engine. */
export function createChangeStore(
  { read, transaction }: Pick<SharedStatements, 'read' | 'transaction'>,
  dialect: ChangeDialect,
): UserChanges {
  const { readPart, last, key, isSettled, noteForgotten } = dialect

  // In ORDER BY, a name without its table would be the text, which sorts 1000 before 999.
  const selectDeletions = (direction: 'ASC' | 'DESC', limit: number, condition = 'true') => `
    SELECT CAST(${key} AS text), id, deleted_at FROM user_changes
    WHERE deleted_at <= $1 AND ${condition}
    ORDER BY user_changes.${key} ${direction}, id ${direction} LIMIT ${limit}`

  const SELECT_LAST_DELETION = selectDeletions('DESC', 1)

  const SELECT_FIRST_DELETIONS = selectDeletions('ASC', DELETIONS_A_TIME, isSettled)

  /** Those at the end. Earlier ones go with the next deletion whose date has come. */
  const DATE_BACK = `
    UPDATE user_changes SET deleted_at = $1
    WHERE deleted_at > $1 AND (${key}, id) > ($2, $3)`

  const FORGET = `
    DELETE FROM user_changes
    WHERE deleted_at IS NOT NULL AND (${key}, id) <= ($1, $2)`

  function* forget(before: string, now: string): Program<boolean> {
    const [[lastKey, lastId] = ['0', 0]] = yield* ask<Deletion>(SELECT_LAST_DELETION, [now])
    yield* ask(DATE_BACK, [now, lastKey, lastId])
    const first = yield* ask<Deletion>(SELECT_FIRST_DELETIONS, [now])
    const kept = first.findIndex(([, , deletedAt]) => deletedAt >= before)
    const old = kept < 0 ? first : first.slice(0, kept)
    const newest = old.at(-1)?.slice(0, 2)
    if (newest === undefined) return false
    yield* ask(noteForgotten, newest)
    yield* ask(FORGET, newest)
    return old.length === DELETIONS_A_TIME
  }

  return {
    read: async (after, limit) => {
      const isNew = after === undefined || after === 'now'
      const start = after === 'now' ? { ...BEGINNING, ...(await last()) } : (after ?? BEFORE)
      let part = await readPart(start, limit)
      const { mark, seenBefore, baseline } = part.feed
      let from = isNew ? { ...start, mark, since: seenBefore } : after
      // Whether there are users from before the feed is only known with the first part.
      if (after === undefined && baseline === 0) {
        from = { ...from, ...BEGINNING }
        part = await readPart(from, limit)
      }
      if (isExpired(part.feed, from)) throw new ServiceError('cursor_expired')
      return toPage(part, from, limit)
    },

    last: async () => ({ phase: 'changes', since: '0', ...(await last()) }),

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

/** Whether a position is of another feed, before a forgotten deletion that its reader needs, or beyond the last change. */
function isExpired({ mark, forgotten, end }: FeedPart['feed'], position: ChangePosition): boolean {
  if (position.mark !== mark) return true
  const read = position.phase === 'before' ? { ...position, ...BEGINNING } : position
  const began = BigInt(position.since)
  if (BigInt(read.key) >= BigInt(end) || began > BigInt(end)) return true
  return began <= BigInt(forgotten.key) && isAfter({ ...read, ...forgotten }, read)
}

/**
 * A page of users from before the feed, or of changes. Such users without JSON come later, with their change. A
 * reader who has seen all changes no longer needs deletions that were forgotten meanwhile, whenever it began. So all
 * such readers continue from the same position, and share their next read.
 */
function toPage({ feed, rows }: FeedPart, from: ChangePosition, limit: number): ChangePage {
  const found = rows.map(row => toChange(row, from))
  if (from.phase === 'before') {
    const changes = found.filter(({ user }) => user !== undefined).slice(0, limit)
    const end = rows.length < BASELINE_ROWS ? BEGINNING : found.at(-1)?.position
    const next = changes.length === limit ? changes.at(-1)?.position : end
    return { changes, next: { ...from, ...next }, hasMore: true }
  }
  const changes = found.slice(0, limit)
  const last = changes.at(-1)?.position ?? from
  if (found.length > limit) return { changes, next: last, hasMore: true }
  const settled = { ...from, ...feed.forgotten }
  const next = isAfter(settled, last) ? settled : last
  return { changes, next: { ...next, since: '0' }, hasMore: false }
}

function toChange([id, key, json, deletedAt]: ChangeRow, from: ChangePosition): UserChange {
  return {
    position: { ...from, key: String(key), id },
    id,
    user: json ?? undefined,
    deletedAt: deletedAt ?? undefined,
  }
}
