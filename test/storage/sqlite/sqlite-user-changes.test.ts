import { beforeAll, expect, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createSqliteSharedStatements } from '../../../src/storage/sqlite/sqlite-statements.ts'
import {
  createSqliteUserChanges,
  SELECT_BASELINE,
} from '../../../src/storage/sqlite/sqlite-user-changes.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import type { UserChanges } from '../../../src/users/user-changes.ts'

const USERS = 2500

/** As of an import whose file gave one time to all users, before the feed. */
const FILL = `
  WITH RECURSIVE numbers (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM numbers WHERE id < ${USERS})
  INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
  SELECT id, 'Ann', 'ann', id || '@example.com', '2026-01-31T12:00:00.000Z', '2026-01-31T12:00:00.000Z' FROM numbers;
  DELETE FROM user_changes;
  UPDATE user_feed SET baseline_through = ${USERS}`

let database: Database
let changes: UserChanges
beforeAll(async () => {
  database = await openSqlite({ path: ':memory:', now: Date.now })
  database.exec(FILL)
  const view = createReadView(database)
  const writes = createWriteQueue(database, view)
  const statements = createSqliteSharedStatements(database, writes)
  changes = createSqliteUserChanges({ view, statements })
  return () => void database.close()
})

test.each([700, 1000])('read visits each user of one time once, in pages of %i', async limit => {
  const ids: number[] = []
  let page = await changes.read(undefined, limit)
  for (;;) {
    ids.push(...page.changes.map(({ id }) => id))
    if (!page.hasMore) break
    page = await changes.read(page.next, limit)
  }
  expect(ids).toEqual(Array.from({ length: USERS }, (_, index) => index + 1))
})

test('read seeks to its place among the users of one time', () => {
  const values = { 1: USERS, 2: '2026-01-31T12:00:00.000Z', 3: 2000 }
  const steps = database.prepare(`EXPLAIN QUERY PLAN ${SELECT_BASELINE}`).all(values)
  const plan = (steps as { detail: string }[]).map(({ detail }) => detail).join('\n')
  expect(plan).toContain('users_by_updated_at (updated_at=? AND rowid>?)')
  expect(plan).not.toMatch(/SCAN users\b|USE TEMP B-TREE/)
})
