import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { indexAllWords } from './index-all-words.ts'

const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @count)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT 'Name ' || i, 'name ' || i, 'user' || i || '@x.co', @time, @time FROM serial`

/** Makes a database with `count` users, with ids from 1. */
export async function fillWithUsers(path: string, count: number): Promise<void> {
  const database = await openSqlite({ path, now: Date.now })
  database.prepare(FILL).run({ count, time: new Date().toISOString() })
  indexAllWords(database)
  database.close()
}
