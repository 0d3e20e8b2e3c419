import { randomBytes } from 'node:crypto'
import { SIGNING_KEYS, type SigningKeyName } from '../storage.ts'
import type { Database } from './sqlite-driver.ts'

const INSERT_UNLESS_THERE = `INSERT OR IGNORE INTO signing_keys (name, key) VALUES (?, ?)`

const SELECT_KEY = `SELECT key FROM signing_keys WHERE name = ?`

/** Creates the keys that a database does not have yet, each of 32 random bytes. */
export function createSigningKeys(database: Database): void {
  const insert = database.prepare(INSERT_UNLESS_THERE)
  for (const name of SIGNING_KEYS) insert.run(name, randomBytes(32))
}

/** The key that a database keeps under `name`. */
export function readSigningKey(database: Database, name: SigningKeyName): Buffer {
  return database.prepare<[string], Buffer>(SELECT_KEY).pluck().get(name) as Buffer
}
