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

type FeedRow = readonly [mark: string, baseline: number, revision: number, forgotten: number]

const SELECT_FEED = `
  SELECT mark, baseline_through, revision, forgotten_through FROM user_feed, users_summary`

/** SQL for the mark of a feed that begins anew. */
export const NEW_MARK = 'lower(hex(randomblob(8)))'

/** Users with a change come later, with that. */
const readBaselineSql = (condition: string) => `
  SELECT id, updated_at, CASE WHEN id <= $1 AND NOT EXISTS (
    SELECT 1 FROM user_changes WHERE user_changes.id = users.id) THEN ${REPRESENTATION} END
  FROM users INDEXED BY users_by_updated_at WHERE ${condition}`

/** For (updated_at, id) > ($2, $3) SQLite seeks by the time only, and an import may give one time to all users. */
export const SELECT_BASELINE = `
  ${readBaselineSql('updated_at = $2 AND id > $3')} UNION ALL ${readBaselineSql('updated_at > $2')}
  ORDER BY updated_at, id LIMIT ${BASELINE_ROWS}`

const SELECT_CHANGES = `
  SELECT user_changes.id, revision, CASE WHEN deleted_at IS NULL THEN (
    SELECT ${REPRESENTATION} FROM users WHERE users.id = user_changes.id) END, deleted_at
  FROM user_changes WHERE revision > $1 ORDER BY revision LIMIT $2`

const SELECT_LAST = `SELECT coalesce(max(revision), 0) FROM user_changes`

/** Those at the end. Earlier ones go with the next deletion whose date has come. */
const DATE_BACK = `
  UPDATE user_changes SET deleted_at = $1 WHERE deleted_at IS NOT NULL AND revision > coalesce((
    SELECT revision FROM user_changes WHERE deleted_at <= $1 ORDER BY revision DESC LIMIT 1), 0)`

const SELECT_FIRST_DELETIONS = `
  SELECT revision, deleted_at FROM user_changes WHERE deleted_at <= $1
  ORDER BY revision LIMIT ${DELETIONS_A_TIME}`

const FORGET = `DELETE FROM user_changes WHERE deleted_at IS NOT NULL AND revision <= $1`

const NOTE_FORGOTTEN = `UPDATE user_feed SET forgotten_through = max(forgotten_through, $1)`

const COUNT_DELETIONS = `SELECT count(*) FROM user_changes WHERE deleted_at IS NOT NULL`

/** Call it for a database that was put back: a follower may have read changes that it does not have. */
export function expireCursors(database: Database): void {
  if (hasTable(database, 'user_feed')) database.exec(`UPDATE user_feed SET mark = ${NEW_MARK}`)
}

/** The feed in SQLite: each page shows one moment of the database. */
export function createSqliteUserChanges(
  parts: Pick<SqliteParts, 'view' | 'writes' | 'statements'>,
): UserChanges {
  const { view, writes, statements } = parts
  const { run } = statements
  const readFeed = () => run<FeedRow>(SELECT_FEED)[0] as FeedRow

  return {
    read: (after, limit) =>
      view.read(() => {
        const feed = readFeed()
        const from = after ?? beginningOf(feed)
        if (isExpired(feed, from)) throw new ServiceError('cursor_expired')
        const [, baseline, , forgotten] = feed
        const { phase, key, id } = from
        if (phase === 'before') {
          return baselinePageOf(run<ChangeRow>(SELECT_BASELINE, [baseline, key, id]), from, limit)
        }
        const rows = run<ChangeRow>(SELECT_CHANGES, [Number(key), limit + 1])
        return changePageOf(rows, from, limit, { key: String(forgotten), id: 0 })
      }),

    last: () =>
      view.read(() => {
        const [mark] = readFeed()
        const [[last] = [0]] = run<[revision: number]>(SELECT_LAST)
        return { mark, phase: 'changes', key: String(last), id: 0, since: String(last) }
      }),

    forgetDeletions: ({ before, now }) =>
      writes.run(() => {
        const [time, nowTime] = [before, now].map(ms => new Date(ms).toISOString()) as [
          string,
          string,
        ]
        run(DATE_BACK, [nowTime])
        const rows = run<[revision: number, deletedAt: string]>(SELECT_FIRST_DELETIONS, [nowTime])
        const kept = rows.findIndex(([, deletedAt]) => deletedAt >= time)
        const old = kept < 0 ? rows : rows.slice(0, kept)
        const [last] = old.at(-1) ?? []
        if (last === undefined) return false
        run(NOTE_FORGOTTEN, [last])
        run(FORGET, [last])
        return old.length === DELETIONS_A_TIME
      }),

    countDeletions: () =>
      view.read(() => {
        const [[count] = [0]] = run<[number]>(COUNT_DELETIONS)
        return count
      }),
  }
}

function beginningOf([mark, baseline, revision]: FeedRow): ChangePosition {
  const before = { phase: 'before', key: '', id: 0 } as const
  return { mark, since: String(revision), ...(baseline > 0 ? before : BEGINNING) }
}

/** Whether a position is of another feed, before a forgotten deletion that its reader needs, or beyond the last change. */
function isExpired(feed: FeedRow, { mark, phase, key, since }: ChangePosition): boolean {
  const [feedMark, , revision, forgotten] = feed
  if (mark !== feedMark) return true
  const read = phase === 'before' ? 0 : Number(key)
  const through = Math.max(read, Number(since))
  return through > revision || through < forgotten
}
