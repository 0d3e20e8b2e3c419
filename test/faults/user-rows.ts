import { createHash } from 'node:crypto'
import type { Database } from '../../src/storage/sqlite/sqlite-driver.ts'

/** A stored user. */
export interface UserRow {
  readonly id: number
  readonly name: string
  readonly nameLower: string
  readonly email: string
  readonly createdAt: string
  readonly updatedAt: string
}

/** A stored Idempotency-Key. */
export interface KeyRow {
  readonly userId: number
  readonly fingerprint: string | null
  readonly json: string | null
}

const SELECT_USERS = `
  SELECT id, name, name_lower AS nameLower, email, created_at AS createdAt, updated_at AS updatedAt
  FROM users WHERE id > ?`

const SELECT_KEYS = `
  SELECT hex(key_hash), user_id AS userId, fingerprint, user_json AS json FROM idempotency_keys`

/** The users whose ids are greater than `afterId`. */
export function userRows(database: Database, afterId = 0): UserRow[] {
  return database.prepare<[number], UserRow>(SELECT_USERS).all(afterId)
}

/** The JSON that the service must show for a row, made independently of its code. */
export function representationOf({ id, name, email, createdAt, updatedAt }: UserRow): string {
  return JSON.stringify({ id, name, email, created_at: createdAt, updated_at: updatedAt })
}

/** By the hash of the key. */
export function keyRows(database: Database): Map<string, KeyRow> {
  const rows = database.prepare(SELECT_KEYS).raw().all() as [
    string,
    number,
    string | null,
    string | null,
  ][]
  return new Map(
    rows.map(([hash, userId, fingerprint, json]) => [hash, { userId, fingerprint, json }]),
  )
}

/** Returns the stored key and removes it from the map. */
export function takeKey(keys: Map<string, KeyRow>, key: string): KeyRow | undefined {
  const hash = createHash('sha256').update(key).digest('hex').toUpperCase()
  const row = keys.get(hash)
  keys.delete(hash)
  return row
}

/** What is wrong with the database as a whole, after this many inserts, updates and deletes. */
export function integrityProblems(database: Database, changes: number): string[] {
  const summary = database.prepare('SELECT revision, user_count FROM users_summary').raw().get()
  const count = database.prepare('SELECT count(*) FROM users').pluck().get()
  const integrity = database.pragma('integrity_check', { simple: true })
  return [
    ...(integrity === 'ok' ? [] : [`integrity_check: ${integrity}`]),
    ...(said(summary) === said([1 + changes, count])
      ? []
      : [`users_summary is ${said(summary)} after ${changes} changes, with ${count} users`]),
  ]
}

/** For a message. */
export function said(value: unknown): string {
  return (
    JSON.stringify(value, (_name, part) => (typeof part === 'bigint' ? `${part}` : part)) ??
    'nothing'
  )
}
