import type { UserChanges } from '../../users/user-changes.ts'
import { type ChangeRow, createChangeStore } from '../create-change-store.ts'
import type { Database } from './sqlite-driver.ts'
import type { SqliteParts } from './sqlite-statements.ts'
import { REPRESENTATION } from './sqlite-user-reads.ts'

type FeedRow = readonly [mark: string, forgotten: string, end: string]

const SELECT_FEED = `
  SELECT mark, CAST(forgotten_through AS TEXT), CAST(revision + 1 AS TEXT)
  FROM user_feed, users_summary`

/** SQL for the mark of a feed that begins anew. */
export const NEW_MARK = 'lower(hex(randomblob(8)))'

/**
 * A user that is gone without a recorded deletion, because triggers were off, is deleted as of now. For a bare parameter after LIMIT,
 * SQLite would prepare the statement again each time.
 */
const SELECT_CHANGES = `
  SELECT user_changes.id, revision, CASE WHEN deleted_at IS NULL THEN (
      SELECT ${REPRESENTATION} FROM users WHERE users.id = user_changes.id) END,
    coalesce(deleted_at, CASE WHEN NOT EXISTS (SELECT 1 FROM users WHERE users.id = user_changes.id)
      THEN strftime('%Y-%m-%dT%H:%M:%fZ', 'now') END)
  FROM user_changes WHERE revision > $1 ORDER BY revision LIMIT $2 + 0`

const SELECT_LAST = `
  SELECT mark, CAST(coalesce((SELECT max(revision) FROM user_changes), 0) AS TEXT) FROM user_feed`

const NOTE_FORGOTTEN = `
  UPDATE user_feed SET forgotten_through = max(forgotten_through, CAST($1 AS INTEGER))`

/** Call it for a database that was put back: a follower may have read changes that it does not have. */
export function expireCursors(database: Database): void {
  database.exec(`UPDATE user_feed SET mark = ${NEW_MARK}`)
}

/** The feed in SQLite: each page shows one moment of the database. */
export function createSqliteUserChanges({
  view,
  statements,
}: Pick<SqliteParts, 'view' | 'statements'>): UserChanges {
  const { run } = statements

  return createChangeStore(statements, {
    readPart: ({ key }, limit) =>
      view.read(() => {
        const [[mark, forgotten, end]] = run<FeedRow>(SELECT_FEED) as [FeedRow]
        const feed = { mark, forgotten: { key: forgotten, id: 0 }, seenBefore: end, end }
        return { feed, rows: run<ChangeRow>(SELECT_CHANGES, [key, limit + 1]) }
      }),

    last: () =>
      view.read(() => {
        const [[mark = '', key = '0'] = []] = run<[mark: string, key: string]>(SELECT_LAST)
        return { mark, key, id: 0 }
      }),

    key: 'revision',
    isSettled: 'true',
    noteForgotten: NOTE_FORGOTTEN,
  })
}
