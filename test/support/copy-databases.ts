import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { readDatabaseOption } from '../../src/config/settings.ts'
import { type CopyEnd, copyUsers } from '../../src/storage/copy-users.ts'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { openCopyEnd } from '../../src/wiring/copy-databases.ts'
import { makeDatabase, rowsIn } from './databases.ts'

/** Why `copy` refuses a database, as a source or as a target. */
export const REFUSALS = {
  unreleased: 'an unreleased version made it',
  unfinished: 'it is an unfinished copy: run `copy` again, or delete it',
  notEmpty:
    'it is not empty: it has users, idempotency keys, bans, API keys or webhooks, or had users',
}

/** What `copy` copies, and the used ids. */
const TABLES = {
  users:
    'SELECT id, name, name_lower, email, password_digest, created_at, updated_at FROM users ORDER BY id',
  idempotencyKeys: `
    SELECT key_hash, user_id, fingerprint, user_json, expires_at FROM idempotency_keys ORDER BY key_hash`,
  bans: 'SELECT rule, client_key, ends_at, lasts_ms FROM bans ORDER BY 1, 2',
  apiKeys: `
    SELECT name, key_hash, scopes, created_at, expires_at, last_used_at FROM api_keys ORDER BY name`,
  // Those of a copy are disabled, and without a cursor.
  webhooks:
    'SELECT name, url, secret, previous_secret, rotated_until, revision, begun_at, failures FROM webhooks ORDER BY 1',
  signingKeys: 'SELECT name, key FROM signing_keys ORDER BY name',
  lastId: `SELECT seq FROM sqlite_sequence WHERE name = 'users'`,
}

/** All that `copy` copies, from a SQLite database that no process has open. */
export function copiedContent(path: string): Record<string, unknown[]> {
  return Object.fromEntries(Object.entries(TABLES).map(([name, sql]) => [name, rowsIn(path, sql)]))
}

/** Engines that compare by other rules than bytes sort these names of API keys differently. */
const FILL_REST = `
  PRAGMA journal_mode = WAL;
  UPDATE users SET password_digest = '$argon2id$v=19$' || id, name = 'Zoë "\\' || id || '😀' WHERE id % 3 = 0;
  UPDATE users SET name_lower = 'zoë "\\' || id || '😀' WHERE id % 3 = 0;
  UPDATE users SET updated_at = '2030-01-01T00:00:00.000Z' WHERE id % 4 = 0;
  DELETE FROM users WHERE id IN (2, (SELECT max(id) FROM users));
  INSERT INTO idempotency_keys (key_hash, user_id, fingerprint, user_json, expires_at)
    SELECT randomblob(32), id, 'print', '{"id":' || id || '}', 1900000000000 FROM users WHERE id % 2 = 1;
  -- Of the user that was deleted.
  INSERT INTO idempotency_keys (key_hash, user_id, expires_at) VALUES (randomblob(32), 2, 1900000000000);
  INSERT INTO signing_keys (name, key) VALUES ('cursor', randomblob(32));
  INSERT INTO api_keys (name, key_hash, scopes, created_at, expires_at, last_used_at) VALUES
    ('web', randomblob(32), 'users:read users:write', 1800000000000, 1900000000000, 1850000000000),
    ('Web', randomblob(32), 'passwords:verify', 1800000000001, NULL, NULL),
    ('a-b', randomblob(32), 'users:read', 0, 0, NULL),
    ('a_b', randomblob(32), 'users:read', 0, NULL, 0),
    ('aab', randomblob(32), 'users:read', 0, 8640000000000000, NULL);
  INSERT INTO webhooks (name, url, secret, previous_secret, rotated_until, revision, cursor, begun_at, failures) VALUES
    ('a', 'https://example.com/', randomblob(32), randomblob(32), 1900000000000, 3, 'cursor', 1, 2),
    ('b', 'https://example.com/', randomblob(32), NULL, NULL, 3, NULL, 1, 2)`

const FAR = 4_000_000_000_000

/** Odd texts, such as those that PostgreSQL cannot store as they are. */
const BANS = [
  ['login', '203.0.113.1', FAR, 60_000],
  ['login', '203.0.113.1\u0000/a\\b\\0', FAR + 1, 60_000],
  ['', '', FAR, 1],
  ['\u0000', '\\', FAR, 1],
  ['é', '😀', FAR, 2],
]

/** The bytes of each source that was made, by its users. */
const made = new Map<number, Buffer>()

/** Makes a SQLite database with everything that `copy` copies. Ids have gaps, also at the end. */
export async function makeCopySource(path: string, users = 25): Promise<void> {
  const bytes = made.get(users)
  if (bytes !== undefined) {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, bytes)
    return
  }
  makeDatabase(path, { users })
  const database = new Database(path)
  database.exec(FILL_REST)
  const insertBan = database.prepare('INSERT INTO bans VALUES (?, ?, ?, ?, 0)')
  for (const ban of BANS) insertBan.run(ban)
  database.close()
  made.set(users, readFileSync(path))
}

/** Opens a path or a URL of PostgreSQL. */
export function openEnd(database: string, end: 'source' | 'target') {
  return openCopyEnd(readDatabaseOption('--from', database, {}), end)
}

/** Copies. `change` replaces members of the target. */
export async function copyBetween(
  { from, to }: { readonly from: string; readonly to: string },
  change: (target: CopyEnd) => Partial<CopyEnd> = () => ({}),
) {
  const explain: CopyEnd['explain'] = work => work()
  const source = await openEnd(from, 'source')
  try {
    const storage = await openEnd(to, 'target')
    const target = { storage, explain }
    const changed = { ...target, ...change(target) }
    return await copyUsers({ source: { storage: source, explain }, target: changed }).finally(
      storage.close,
    )
  } finally {
    await source.close()
  }
}

/** Thrown where a test ends a copy. */
class Killed extends Error {}

/**
 * Copies until the given piece of work on the target, the first is 1, as if the process ended before it. Whether there was such a
 * piece.
 */
export async function interruptCopy(
  at: { readonly from: string; readonly to: string },
  number: number,
): Promise<boolean> {
  let pieces = 0
  const copying = copyBetween(at, () => ({
    explain: async work => {
      if (++pieces === number) throw new Killed()
      return work()
    },
  }))
  return copying.then(
    () => false,
    error => {
      if (!(error instanceof Killed)) throw error
      return true
    },
  )
}
