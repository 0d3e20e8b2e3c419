import { join } from 'node:path'
import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { newUserBody } from './builders.ts'
import { indexAllWords } from './index-all-words.ts'

/** Creates a user over HTTP. */
export function createUser(url: string, fields: Record<string, unknown> = {}): Promise<Response> {
  return fetch(`${url}/users`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(newUserBody(fields)),
  })
}

const FILL = `
  WITH RECURSIVE serial(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM serial WHERE i < @count)
  INSERT INTO users (name, name_lower, email, created_at, updated_at)
  SELECT @name, lower(@name), 'filled' || i || '@example.com', @time, @time FROM serial`

/** Adds users to the database in the folder of a service that is not running. */
export async function fillDatabase(
  folder: string,
  count: number,
  name = 'Filled in',
): Promise<void> {
  const database = await openSqlite({ path: join(folder, 'data', 'users.db'), now: Date.now })
  database.prepare(FILL).run({ count, name, time: new Date().toISOString() })
  indexAllWords(database)
  database.close()
}
