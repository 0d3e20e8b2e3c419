import { openSqlite } from '../../src/storage/sqlite.ts'

const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @count)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT 'Name ' || i, 'name ' || i, 'user' || i || '@x.co', @time, @time FROM serial`

/** Makes a database of so many users, whose ids count from 1. */
export async function fillWithUsers(path: string, count: number): Promise<void> {
  const database = await openSqlite({ path, now: Date.now })
  database.prepare(FILL).run({ count, time: new Date().toISOString() })
  database.close()
}
