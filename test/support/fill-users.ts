import { join } from 'node:path'
import { foldWords } from '../../src/storage/fold-words.ts'
import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { createLoneStatements } from '../../src/storage/sqlite/sqlite-statements.ts'
import { SQLITE_WORDS } from '../../src/storage/sqlite/sqlite-words.ts'

const FILL = `
  WITH RECURSIVE serial (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @count),
    filled AS (SELECT coalesce(@name, 'Name ' || i) AS name, 'user' || i || '@x.co' AS email FROM serial)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT name, lower(name), email, @time, @time FROM filled`

/** Adds users to a database that no service has open. It is made if it is not there. */
export async function fillWithUsers(path: string, count: number, name?: string): Promise<void> {
  const database = await openSqlite({ path, now: Date.now })
  database.prepare(FILL).run({ count, name, time: new Date().toISOString() })
  await foldWords(createLoneStatements(database), SQLITE_WORDS)
  database.close()
}

/** The same for the database in the folder of a service. */
export function fillDatabase(folder: string, count: number, name?: string): Promise<void> {
  return fillWithUsers(join(folder, 'data', 'users.db'), count, name)
}
