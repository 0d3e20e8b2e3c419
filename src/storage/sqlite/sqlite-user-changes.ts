import type { UserChanges } from '../../users/user-changes.ts'
import { createChangeStore } from '../create-change-store.ts'
import type { Database } from './sqlite-driver.ts'
import type { SqliteParts } from './sqlite-statements.ts'
import { HAS_ID, REPRESENTATION } from './sqlite-user-reads.ts'

/** Call it for a database that was put back: a follower may have read changes that it does not have. */
export function expireCursors(database: Database): void {
  database.exec('UPDATE user_feed SET mark = lower(hex(randomblob(8)))')
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
