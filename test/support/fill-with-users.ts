import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { clearWords, createWordIndex } from '../../src/storage/sqlite/word-index.ts'

const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @count)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT coalesce(@name, 'Name ' || i), lower(coalesce(@name, 'name ' || i)), 'user' || i || '@x.co', @time, @time
  FROM serial`

/** Adds `count` users to a database, with ids from 1 in a new one, and one name for all if it is given. */
export async function fillWithUsers(path: string, count: number, name?: string): Promise<void> {
  const database = await openSqlite({ path, now: Date.now })
  database.prepare(FILL).run({ count, name: name ?? null, time: new Date().toISOString() })
  clearWords(database)
  const index = createWordIndex(database)
  database.transaction(() => {
    while (!index.addNext(10_000).isComplete);
  })()
  database.close()
}
