import type { UserChanges } from '../../users/user-changes.ts'
import { createChangeStore } from '../create-change-store.ts'
import type { Database } from './sqlite-driver.ts'
import type { SqliteParts } from './sqlite-statements.ts'
import { HAS_ID, REPRESENTATION } from './sqlite-user-reads.ts'

const EXPIRE = `
  UPDATE user_feed SET mark = lower(hex(randomblob(8)));
  UPDATE users_summary SET lists_id = lower(hex(randomblob(6)))`

/**
 * Call it for a database that was put back: clients may know changes and lists that it does not have, and its revisions come again.
 * Cursors of the feed and entity tags of lists expire.
 */
export function expireReads(database: Database): void {
  database.exec(EXPIRE)
}

/** The feed in SQLite: each page shows one moment of the database. */
export function createSqliteUserChanges({
  view,
  statements,
}: Pick<SqliteParts, 'view' | 'statements'>): UserChanges {
  return createChangeStore(statements, {
    query: (_, sql, values) => view.read(() => statements.run(sql, values)),
    feed: 'user_feed CROSS JOIN users_summary',
    state: `'ready'`,
    mark: 'mark',
    oldest: 'revision + 1',
    next: 'revision + 1',
    isShown: HAS_ID,
    representation: REPRESENTATION,
    now: `strftime('%Y-%m-%dT%H:%M:%fZ', 'now')`,
    makeReady: async () => {},
  })
}
