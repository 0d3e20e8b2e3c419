import type { CopiedRow, CopyTarget } from '../../copy/database-copy.ts'
import { OLDER_SCHEMA, UnusableDatabase } from '../../unusable-database.ts'
import { inspect, requireFile, WHOLE_CACHE_KIB } from '../inspect-database.ts'
import { migrationsOfRelease } from '../migrator.ts'
import { openExclusively } from '../open-exclusively.ts'
import { openSqlite } from '../open-sqlite.ts'
import { isUnfinishedCopy } from '../sqlite-copy-mark.ts'
import type { Database } from '../sqlite-driver.ts'
import { explainErrors } from '../unusable-reasons.ts'
import { clearWords, createWordIndex } from '../word-index.ts'
import { nameRefused } from './refused-rows.ts'
import { createSqliteCopyReader } from './sqlite-copy-reader.ts'
import { createUserIndexes, dropUserIndexes } from './user-indexes.ts'

/** 64 MB: a page that many transactions write is copied from the WAL into the database once. */
const CHECKPOINT_PAGES = 16_000

const SELECT_IS_USED = `
  SELECT EXISTS (SELECT 1 FROM users) OR EXISTS (SELECT 1 FROM idempotency_keys)
    OR EXISTS (SELECT 1 FROM bans) OR EXISTS (SELECT 1 FROM api_keys)
    OR EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'users' AND seq > 0)`

const INSERT_MARK = `INSERT INTO unfinished_copies (singleton) VALUES (1)`

const DELETE_MARK = `DELETE FROM unfinished_copies`

/** About a second for a million users. Keys before users, for a trigger looks for those of each deleted user. */
const DELETE_ALL = `
  DELETE FROM idempotency_keys; DELETE FROM users; DELETE FROM bans; DELETE FROM api_keys;
  DELETE FROM sqlite_sequence WHERE name = 'users'`

const INSERT_USER = `
  INSERT INTO users (id, name, name_lower, email, password_digest, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)`

const INSERT_KEY = `
  INSERT INTO idempotency_keys (key_hash, user_id, fingerprint, user_version, user_json, expires_at)
  VALUES (unhex(?), ?, ?, ?, ?, ?)`

const INSERT_BAN = `INSERT INTO bans (rule, client_key, ends_at, lasts_ms) VALUES (?, ?, ?, ?)`

const INSERT_API_KEY = `
  INSERT INTO api_keys (name, key_hash, scopes, created_at, expires_at, last_used_at)
  VALUES (?, unhex(?), ?, ?, ?, ?)`

const DELETE_SIGNING_KEYS = `DELETE FROM signing_keys`

const INSERT_SIGNING_KEY = `INSERT INTO signing_keys (name, key) VALUES (?, unhex(?))`

const RAISE_SEQUENCE = `UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'users'`

const INSERT_SEQUENCE = `
  INSERT INTO sqlite_sequence (name, seq)
  SELECT 'users', ? WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'users')`

/**
 * Opens a database that no other process has open, and creates it if it is missing. Throws `UnusableDatabase`; a database
 * that it refuses stays as it was.
 */
export async function openSqliteCopyTarget(path: string): Promise<CopyTarget> {
  requireFile(path)
  const inspected = await explainErrors(() => inspect(path))
  // Only an empty file and an unfinished copy are migrated.
  const { applied } = inspected
  const isOlder = applied.length > 0 && applied.length < migrationsOfRelease().length
  if (isOlder && !inspected.isUnfinishedCopy) throw new UnusableDatabase(OLDER_SCHEMA)
  const created = await openSqlite({ path, now: Date.now, isCopyTarget: true })
  created.close()
  const database = await explainErrors(() => openExclusively(path))
  database.pragma(`cache_size = -${WHOLE_CACHE_KIB}`)
  database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  return createTarget(database)
}

function createTarget(database: Database): CopyTarget {
  const isUsed = database.prepare<[], 0 | 1>(SELECT_IS_USED).pluck()
  const words = createWordIndex(database)
  const transaction = <T>(work: () => T) => explainErrors(() => database.transaction(work)())

  function addAll(sql: string, rows: readonly CopiedRow[], nameOf: (row: CopiedRow) => string) {
    const insert = database.prepare(sql)
    for (const row of rows) {
      nameRefused(
        () => nameOf(row),
        () => insert.run(row),
      )
    }
  }

  return {
    ...createSqliteCopyReader(database),

    isFree: () => explainErrors(() => isUnfinishedCopy(database) || isUsed.get() === 0),

    begin: () =>
      transaction(() => {
        dropUserIndexes(database)
        if (isUnfinishedCopy(database)) {
          database.exec(DELETE_ALL)
          clearWords(database)
        } else {
          database.exec(INSERT_MARK)
        }
      }),

    addUsers: users =>
      transaction(() => {
        addAll(INSERT_USER, users, ([id]) => `user ${id}`)
        for (const [id, name, , email] of users) words.add(id, { name, email })
      }),

    addIdempotencyKeys: keys =>
      transaction(() => addAll(INSERT_KEY, keys, ([, id]) => `an idempotency key of user ${id}`)),

    addBans: bans =>
      transaction(() => addAll(INSERT_BAN, bans, ([rule]) => `a ban of ${JSON.stringify(rule)}`)),

    addApiKeys: keys =>
      transaction(() => addAll(INSERT_API_KEY, keys, ([name]) => `the API key ${name}`)),

    finish: async ({ signingKeys, lastId, verify }) => {
      try {
        await explainErrors(() => {
          database.exec('BEGIN IMMEDIATE')
          database.exec(DELETE_SIGNING_KEYS)
          addAll(INSERT_SIGNING_KEY, signingKeys, ([name]) => `the signing key ${name}`)
          database.prepare(RAISE_SEQUENCE).run(lastId)
          database.prepare(INSERT_SEQUENCE).run(lastId)
          createUserIndexes(database)
        })
        await verify()
        await explainErrors(() => database.exec(`${DELETE_MARK}; COMMIT`))
      } finally {
        if (database.inTransaction) database.exec('ROLLBACK')
      }
    },

    close: async () => {
      database.close()
    },
  }
}
