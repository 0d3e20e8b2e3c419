import { ServiceError } from '../../errors.ts'
import type { ChangePosition, UserChanges } from '../../users/user-changes.ts'
import {
  BASELINE_ROWS,
  BEGINNING,
  baselinePageOf,
  type ChangeRow,
  changePageOf,
  DELETIONS_A_TIME,
} from '../change-pages.ts'
import type { Database } from './sqlite-driver.ts'
import { hasTable, type SqliteParts } from './sqlite-statements.ts'
import { REPRESENTATION } from './sqlite-user-rows.ts'

interface FeedRow {
  readonly mark: string
  readonly baseline: number
  readonly forgotten: number
  readonly revision: number
}

type DeletionRow = readonly [revision: number, deletedAt: string]

const SELECT_FEED = `
  SELECT mark, baseline_through AS baseline, forgotten_through AS forgotten, revision
  FROM user_feed, users_summary`

/** SQL for the mark of a feed that begins anew. */
export const NEW_MARK = 'lower(hex(randomblob(8)))'

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
  SELECT user_changes.id, revision, CASE WHEN deleted_at IS NULL THEN (
    SELECT ${REPRESENTATION} FROM users WHERE users.id = user_changes.id) END, deleted_at
  FROM user_changes WHERE revision > ? ORDER BY revision LIMIT ?`

const SELECT_LAST = `SELECT coalesce(max(revision), 0) FROM user_changes`

const SELECT_FIRST_DELETIONS = `
  SELECT revision, deleted_at FROM user_changes WHERE deleted_at IS NOT NULL
  ORDER BY revision LIMIT ${DELETIONS_A_TIME}`

const FORGET = `DELETE FROM user_changes WHERE deleted_at IS NOT NULL AND revision <= ?`

const NOTE_FORGOTTEN = `UPDATE user_feed SET forgotten_through = max(forgotten_through, ?)`

const COUNT_DELETIONS = `SELECT count(*) FROM user_changes WHERE deleted_at IS NOT NULL`

/** Call it for a copy of a database: a follower may have read changes that the copy does not have. */
export function expireCursors(database: Database): void {
  if (hasTable(database, 'user_feed')) database.exec(`UPDATE user_feed SET mark = ${NEW_MARK}`)
}

/** The feed in SQLite: each page shows one moment of the database. */
export function createSqliteUserChanges(
  parts: Pick<SqliteParts, 'database' | 'view' | 'writes'>,
): UserChanges {
  const { database, view, writes } = parts
  const { read } = view
  const selectFeed = database.prepare<[], FeedRow>(SELECT_FEED)
  const selectBaseline = database.prepare<unknown[], ChangeRow>(SELECT_BASELINE).raw()
  const selectChanges = database.prepare<[number, number], ChangeRow>(SELECT_CHANGES).raw()
  const selectLast = database.prepare<[], number>(SELECT_LAST).pluck()
  const selectFirstDeletions = database.prepare<[], DeletionRow>(SELECT_FIRST_DELETIONS).raw()
  const forget = database.prepare<[number]>(FORGET)
  const noteForgotten = database.prepare<[number]>(NOTE_FORGOTTEN)
  const countDeletions = database.prepare<[], number>(COUNT_DELETIONS).pluck()

  return {
    read: (after, limit) =>
      read(() => {
        const feed = selectFeed.get() as FeedRow
        const from = after ?? beginningOf(feed)
        if (isExpired(feed, from)) throw new ServiceError('cursor_expired')
        const { phase, key, id } = from
        return phase === 'before'
          ? baselinePageOf(selectBaseline.all({ baseline: feed.baseline, key, id }), from, limit)
          : changePageOf(selectChanges.all(Number(key), limit + 1), from, limit)
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

function beginningOf({ mark, baseline, revision }: FeedRow): ChangePosition {
  const before = { phase: 'before', key: '', id: 0 } as const
  return { mark, since: String(revision), ...(baseline > 0 ? before : BEGINNING) }
}

/** Whether a position is of another feed, before a forgotten deletion that its reader needs, or beyond the last change. */
function isExpired(feed: FeedRow, { mark, phase, key, since }: ChangePosition): boolean {
  if (mark !== feed.mark) return true
  const read = phase === 'before' ? 0 : Number(key)
  const through = Math.max(read, Number(since))
  return through > feed.revision || through < feed.forgotten
}
