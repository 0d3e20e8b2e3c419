import { randomBytes } from 'node:crypto'
import type { Database } from 'better-sqlite3'

const INSERT_UNLESS_THERE = `INSERT OR IGNORE INTO signing_keys (name, key) VALUES (?, ?)`

const SELECT_KEY = `SELECT key FROM signing_keys WHERE name = ?`

/** The 32 random bytes that this database keeps under `name`: made once, the same for every process. */
export function signingKey(database: Database, name: string): Buffer {
  const select = database.prepare<[string], Buffer>(SELECT_KEY).pluck()
  const kept = select.get(name)
  if (kept !== undefined) return kept
  database.prepare(INSERT_UNLESS_THERE).run(name, randomBytes(32))
  return select.get(name) as Buffer
}
