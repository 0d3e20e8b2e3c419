import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { copyDatabase } from '../../src/storage/copy/copy-database.ts'
import type { CopySource, CopyTarget } from '../../src/storage/copy/copy-ends.ts'
import { openPostgresCopySource } from '../../src/storage/postgres/copy/postgres-copy-source.ts'
import { openPostgresCopyTarget } from '../../src/storage/postgres/copy/postgres-copy-target.ts'
import { openSqliteCopySource } from '../../src/storage/sqlite/copy/sqlite-copy-source.ts'
import { openSqliteCopyTarget } from '../../src/storage/sqlite/copy/sqlite-copy-target.ts'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import { rowsIn } from './databases.ts'
import { fillWithUsers } from './fill-users.ts'
import { locationOf } from './postgres-databases.ts'

/** Why `copy` refuses a database, as a source or as a target. */
export const REFUSALS = {
  unreleased: 'an unreleased version made it',
  unfinished: 'it is an unfinished copy: run `copy` again, or delete it',
}

/** The tables that `copy` copies, and the used ids. */
const TABLES = {
  users: 'SELECT * FROM users ORDER BY id',
  idempotencyKeys: 'SELECT * FROM idempotency_keys ORDER BY key_hash',
  bans: 'SELECT rule, client_key, ends_at, lasts_ms FROM bans ORDER BY 1, 2',
  apiKeys: 'SELECT * FROM api_keys ORDER BY name',
  signingKeys: 'SELECT * FROM signing_keys ORDER BY name',
  lastId: `SELECT seq FROM sqlite_sequence WHERE name = 'users'`,
}

/** All that `copy` copies, from a SQLite database that no process has open. */
export function copiedContent(path: string): Record<string, unknown[]> {
  return Object.fromEntries(Object.entries(TABLES).map(([name, sql]) => [name, rowsIn(path, sql)]))
}

const FILL_REST = `
  UPDATE users SET password_digest = '$argon2id$v=19$' || id, name = 'Zoë "\\' || id || '😀' WHERE id % 3 = 0;
  UPDATE users SET updated_at = '2030-01-01T00:00:00.000Z' WHERE id % 4 = 0;
  DELETE FROM users WHERE id IN (2, (SELECT max(id) FROM users))`

const INSERT_KEY = `
  INSERT INTO idempotency_keys (key_hash, user_id, fingerprint, user_version, user_json, expires_at)
  VALUES (?, ?, ?, ?, ?, ?)`

const INSERT_BAN = `INSERT INTO bans (rule, client_key, ends_at, lasts_ms) VALUES (?, ?, ?, ?)`

const INSERT_API_KEY = `
  INSERT INTO api_keys (name, key_hash, scopes, created_at, expires_at, last_used_at)
  VALUES (?, ?, ?, ?, ?, ?)`

/** Without their hashes. Engines that compare by other rules than bytes sort these names differently. */
const API_KEYS = [
  ['web', 'users:read users:write', 1_800_000_000_000, 1_900_000_000_000, 1_850_000_000_000],
  ['Web', 'passwords:verify', 1_800_000_000_001, null, null],
  ['a-b', 'users:read', 0, 0, null],
  ['a_b', 'users:read', 0, null, 0],
  ['aab', 'users:read', 0, 8_640_000_000_000_000, null],
] as const

/** Odd texts, such as those that PostgreSQL cannot store as they are. */
const BANS = [
  ['login', '203.0.113.1', 1_900_000_000_000, 60_000],
  ['login', '203.0.113.1\u0000/a\\b\\0', 1_900_000_000_001, 31_622_400_000],
  ['', '', 1, 0],
  ['\u0000', '\\', 2, 1],
  ['é', '😀', 3, 2],
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
  await fillWithUsers(path, users)
  const database = new Database(path)
  database.exec(FILL_REST)
  const insertKey = database.prepare(INSERT_KEY)
  const insertApiKey = database.prepare(INSERT_API_KEY)
  const insertBan = database.prepare(INSERT_BAN)
  database.transaction(() => {
    for (let id = 1; id <= users; id += 2) {
      insertKey.run(randomBytes(32), id, 'print', `2026 ${id}`, `{"id":${id}}`, 1_900_000_000_000)
    }
    // Of the user that was deleted.
    insertKey.run(randomBytes(32), 2, null, null, null, 1_900_000_000_000)
    for (const ban of BANS) insertBan.run(ban)
    database.prepare('INSERT INTO signing_keys VALUES (?, ?)').run('cursor', randomBytes(32))
    for (const [name, ...rest] of API_KEYS) insertApiKey.run(name, randomBytes(32), ...rest)
  })()
  database.close()
  made.set(users, readFileSync(path))
}

/** Opens a path or a URL of PostgreSQL. */
export function openSource(database: string): Promise<CopySource> {
  return database.startsWith('postgres')
    ? openPostgresCopySource(locationOf(database))
    : openSqliteCopySource(database)
}

export function openTarget(database: string): Promise<CopyTarget> {
  return database.startsWith('postgres')
    ? openPostgresCopyTarget(locationOf(database))
    : openSqliteCopyTarget(database)
}

/** Copies in small chunks. `change` replaces methods of the target. */
export async function copyInChunks(
  { from, to }: { readonly from: string; readonly to: string },
  change: (target: CopyTarget) => Partial<CopyTarget> = () => ({}),
  chunkRows = 4,
) {
  const source = await openSource(from)
  try {
    const target = await openTarget(to)
    const changed = { ...target, ...change(target) }
    return await copyDatabase({ source, target: changed, chunkRows }).finally(target.close)
  } finally {
    await source.close()
  }
}

/** Thrown where a test ends a copy. */
class Killed extends Error {}

const WRITES = ['begin', 'add', 'complete', 'commit'] as const

/** Copies until the given write of the target, the first is 1, as if the process ended there. Whether there was such a write. */
export async function interruptCopy(
  at: { readonly from: string; readonly to: string },
  number: number,
): Promise<boolean> {
  let writes = 0
  const copying = copyInChunks(at, target =>
    Object.fromEntries(
      WRITES.map(name => [
        name,
        async (...values: never[]) => {
          if (++writes === number) throw new Killed()
          await (target[name] as (...values: never[]) => Promise<void>)(...values)
        },
      ]),
    ),
  )
  return copying.then(
    () => false,
    error => {
      if (!(error instanceof Killed)) throw error
      return true
    },
  )
}
