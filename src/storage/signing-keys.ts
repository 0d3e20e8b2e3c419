import { randomBytes } from 'node:crypto'
import type { Database } from 'better-sqlite3'

export type SigningKeyName = 'cursor'

const NAMES: readonly SigningKeyName[] = ['cursor']

const INSERT_UNLESS_THERE = `INSERT OR IGNORE INTO signing_keys (name, key) VALUES (?, ?)`

const SELECT_KEY = `SELECT key FROM signing_keys WHERE name = ?`

/** Makes the keys that a database does not have yet, each of 32 random bytes. */
export function createSigningKeys(database: Database): void {
  const insert = database.prepare(INSERT_UNLESS_THERE)
  for (const name of NAMES) insert.run(name, randomBytes(32))
}

/** The key that a database keeps under `name`, the same for every process. */
export function signingKey(database: Database, name: SigningKeyName): Buffer {
  return database.prepare<[string], Buffer>(SELECT_KEY).pluck().get(name) as Buffer
}
