import { ServiceError } from '../../errors.ts'
import type {
  ChangePage,
  ChangePosition,
  UserChange,
  UserChanges,
} from '../../users/user-changes.ts'
import type { ReadView } from './read-view.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { REPRESENTATION } from './user-representation.ts'
import type { WriteQueue } from './write-queue.ts'

interface FeedRow {
  readonly mark: string
  readonly baseline: number
  readonly forgotten: number
  readonly revision: number
}

type BaselineRow = readonly [id: number, key: string, json: string | null]

type DeletionRow = readonly [revision: number, deletedAt: string]

type ChangeRow = readonly [
  id: number,
  revision: number,
  deletedAt: string | null,
  json: string | null,
]

const SELECT_FEED = `
  SELECT mark, baseline_through AS baseline, forgotten_through AS forgotten, revision
  FROM user_feed, users_summary`

/** SQL for the mark of a feed that begins anew. */
export const NEW_MARK = 'lower(hex(randomblob(8)))'

/** With many users that have changed since, a page looks at this many and may show none of them. */
const BASELINE_ROWS = 1000

/** Users with a change come later, with that. */
const readBaselineSql = (condition: string) => `
  SELECT id, updated_at, CASE WHEN id <= @baseline AND NOT EXISTS (
    SELECT 1 FROM user_changes WHERE user_changes.id = users.id) THEN ${REPRESENTATION} END
  FROM users INDEXED BY users_by_updated_at WHERE ${condition}`

/** For (updated_at, id) > (@key, @id) SQLite seeks by the time only, and an import may give one time to all users. */
export const SELECT_BASELINE = `
  ${readBaselineSql('updated_at = @key AND id > @id')} UNION ALL ${readBaselineSql('updated_at > @key')}
  ORDER BY updated_at, id LIMIT ${BASELINE_ROWS}`

const SELECT_CHANGES = `
  SELECT user_changes.id, revision, deleted_at, CASE WHEN deleted_at IS NULL THEN (
    SELECT ${REPRESENTATION} FROM users WHERE users.id = user_changes.id) END
  FROM user_changes WHERE revision > ? ORDER BY revision LIMIT ?`

const SELECT_LAST = `SELECT coalesce(max(revision), 0) FROM user_changes`

const DELETIONS_A_TIME = 500

const SELECT_FIRST_DELETIONS = `
  SELECT revision, deleted_at FROM user_changes WHERE deleted_at IS NOT NULL
  ORDER BY revision LIMIT ${DELETIONS_A_TIME}`

const FORGET = `DELETE FROM user_changes WHERE deleted_at IS NOT NULL AND revision <= ?`

const NOTE_FORGOTTEN = `UPDATE user_feed SET forgotten_through = max(forgotten_through, ?)`

const COUNT_DELETIONS = `SELECT count(*) FROM user_changes WHERE deleted_at IS NOT NULL`

/** The feed in SQLite: each page shows one moment of the database. */
export function createSqliteUserChanges(options: {
  readonly database: Database
  readonly view: ReadView
  readonly writes: WriteQueue
}): UserChanges {
  const { database, view, writes } = options
  const selectFeed = database.prepare<[], FeedRow>(SELECT_FEED)
  const selectBaseline = database.prepare<unknown[], BaselineRow>(SELECT_BASELINE).raw()
  const selectChanges = database.prepare<[number, number], ChangeRow>(SELECT_CHANGES).raw()
  const selectLast = database.prepare<[], number>(SELECT_LAST).pluck()
  const selectFirstDeletions = database.prepare<[], DeletionRow>(SELECT_FIRST_DELETIONS).raw()
  const forget = database.prepare<[number]>(FORGET)
  const noteForgotten = database.prepare<[number]>(NOTE_FORGOTTEN)
  const countDeletions = database.prepare<[], number>(COUNT_DELETIONS).pluck()

  async function read<T>(query: () => T): Promise<T> {
    if (!database.open) throw new ServiceError('shutting_down')
    try {
      return view.read(query)
    } catch (error) {
      throw error instanceof ServiceError ? error : translateSqliteError(error)
    }
  }

  function readBaseline({ baseline }: FeedRow, after: ChangePosition, limit: number) {
    const rows = selectBaseline.all({ baseline, key: after.key, id: after.id })
    const changes: UserChange[] = []
    let next = after
    for (const [id, key, json] of rows) {
      next = { ...after, key, id }
      if (json === null) continue
      changes.push({ position: next, id, user: json, deletedAt: undefined })
      if (changes.length === limit) return { changes, next, hasMore: true }
    }
    if (rows.length < BASELINE_ROWS) next = { ...after, ...BEGINNING }
    return { changes, next, hasMore: true }
  }

  function readChanges(after: ChangePosition, limit: number): ChangePage {
    const rows = selectChanges.all(Number(after.key), limit + 1)
    const changes = rows.slice(0, limit).map(
      ([id, revision, deletedAt, json]): UserChange => ({
        position: { ...after, key: String(revision), id },
        id,
        user: json ?? undefined,
        deletedAt: deletedAt ?? undefined,
      }),
    )
    return { changes, next: changes.at(-1)?.position ?? after, hasMore: rows.length > limit }
  }

  return {
    read: (after, limit) =>
      read(() => {
        const feed = selectFeed.get() as FeedRow
        const from = after ?? beginningOf(feed)
        if (isExpired(feed, from)) throw new ServiceError('cursor_expired')
        return from.phase === 'before' ? readBaseline(feed, from, limit) : readChanges(from, limit)
      }),

    last: () =>
      read(() => {
        const { mark } = selectFeed.get() as FeedRow
        const key = String(selectLast.get())
        return { mark, phase: 'changes', key, id: 0, since: key }
      }),

    forgetDeletions: before =>
      writes.run(() => {
        const time = new Date(before).toISOString()
        const rows = selectFirstDeletions.all()
        const kept = rows.findIndex(([, deletedAt]) => deletedAt >= time)
        const old = kept < 0 ? rows : rows.slice(0, kept)
        const [last] = old.at(-1) ?? []
        if (last === undefined) return false
        noteForgotten.run(last)
        forget.run(last)
        return old.length === DELETIONS_A_TIME
      }),

    countDeletions: () => read(() => countDeletions.get() as number),
  }
}

const BEGINNING = { phase: 'changes', key: '0', id: 0 } as const

function beginningOf({ mark, baseline, revision }: FeedRow): ChangePosition {
  const before = { phase: 'before', key: '', id: 0 } as const
  return { mark, since: String(revision), ...(baseline > 0 ? before : BEGINNING) }
}

/** A position from before a forgotten deletion that its reader needs, or beyond the present. */
function isExpired(feed: FeedRow, { mark, phase, key, since }: ChangePosition): boolean {
  if (mark !== feed.mark) return true
  const read = phase === 'before' ? 0 : Number(key)
  const through = Math.max(read, Number(since))
  return through > feed.revision || through < feed.forgotten
}
