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
    /** All deletions up to this place may be forgotten. */
    readonly forgotten: Place
    /** No change that is made from now on comes before this key. */
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
  deletedAt: string | null,
]

/** What the engines do differently with the table `user_changes`. */
export interface ChangeDialect {
  /** Up to `limit` changes and one more. */
  readPart(after: Place, limit: number): Promise<FeedPart>
  last(): Promise<Place & Pick<ChangePosition, 'mark'>>
  /** The column with the keys of changes. */
  readonly key: string
  /** SQL for whether no change can come before a change. */
  readonly isSettled: string
  /** Sets the place up to which deletions are forgotten to $1 and $2, unless it is later. */
  readonly noteForgotten: string
}

const COUNT_DELETIONS = `SELECT count(*) FROM user_changes WHERE deleted_at IS NOT NULL`

/** Deletions that one transaction forgets. */
const DELETIONS_A_TIME = 500

/** The place before all changes. */
const BEGINNING: Place = { key: '0', id: 0 }

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
      const start = after === 'now' ? await last() : (after ?? BEGINNING)
      const { feed, rows } = await readPart(start, limit)
      const isNew = after === undefined || after === 'now'
      const from = isNew ? { ...start, mark: feed.mark, since: feed.seenBefore } : after
      if (isExpired(feed, from)) throw new ServiceError('cursor_expired')
      return toPage({ feed, rows }, from, limit)
    },

    last: async () => ({ since: '0', ...(await last()) }),

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
  const began = BigInt(position.since)
  if (BigInt(position.key) >= BigInt(end) || began > BigInt(end)) return true
  return began <= BigInt(forgotten.key) && isAfter(forgotten, position)
}

/**
 * A reader who has seen all changes no longer needs deletions that were forgotten meanwhile, whenever it began. So all such
 * readers continue from the same position, and share their next read.
 */
function toPage({ feed, rows }: FeedPart, from: ChangePosition, limit: number): ChangePage {
  const changes = rows.slice(0, limit).map(([id, key, json, deletedAt]): UserChange => {
    const position = { ...from, key: String(key), id }
    return { position, id, user: json ?? undefined, deletedAt: deletedAt ?? undefined }
  })
  const last = changes.at(-1)?.position ?? from
  if (rows.length > limit) return { changes, next: last, hasMore: true }
  const next = isAfter(feed.forgotten, last) ? { ...last, ...feed.forgotten } : last
  return { changes, next: { ...next, since: '0' }, hasMore: false }
}
