import type { PostgresLocation } from '../../../config/postgres-url.ts'
import type { CopyTarget } from '../../copy/database-copy.ts'
import { hashOfBan, toStored } from '../ban-text.ts'
import { isUnfinishedCopy } from '../postgres-copy-mark.ts'
import { addPostgresUsers } from './add-postgres-users.ts'
import { columnsOf } from './columns-of.ts'
import { lockForCopy } from './copy-lock.ts'
import { createSchema, lacksSchema } from './copy-schema.ts'
import { type CopySession, openCopySession } from './copy-session.ts'
import { emptyTables } from './empty-tables.ts'
import { createPostgresCopyReader, readInOrder } from './postgres-copy-reader.ts'

const SELECT_IS_USED = `
  SELECT EXISTS (SELECT FROM users) OR EXISTS (SELECT FROM idempotency_keys) OR EXISTS (SELECT FROM bans)
    OR EXISTS (SELECT FROM api_keys)
    OR pg_sequence_last_value('users_id_seq'::regclass) IS NOT NULL`

const INSERT_MARK = `INSERT INTO unfinished_copies (singleton) VALUES (1)`

const DELETE_MARK = `DELETE FROM unfinished_copies`

const INSERT_KEYS = `
  INSERT INTO idempotency_keys (key_hash, user_id, fingerprint, user_version, user_json, expires_at)
  SELECT decode(key_hash, 'hex'), user_id, fingerprint, user_version, user_json, expires_at
  FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[])
    AS copied (key_hash, user_id, fingerprint, user_version, user_json, expires_at)`

const INSERT_BANS = `
  INSERT INTO bans (rule, client_key, ends_at, lasts_ms, key_hash)
  SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[])`

const INSERT_API_KEYS = `
  INSERT INTO api_keys (name, key_hash, scopes, created_at, expires_at, last_used_at)
  SELECT name, decode(key_hash, 'hex'), scopes, created_at, expires_at, last_used_at
  FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS copied (name, key_hash, scopes, created_at, expires_at, last_used_at)`

const INSERT_SIGNING_KEYS = `
  INSERT INTO signing_keys (name, key)
  SELECT name, decode(key, 'hex') FROM unnest($1::text[], $2::text[]) AS copied (name, key)`

/** A service that runs although the database was empty must not change what is verified. */
const LOCK_TABLES = `
  LOCK TABLE users, idempotency_keys, bans, api_keys, signing_keys IN SHARE ROW EXCLUSIVE MODE`

/** A role that only serves may not set the sequence itself. */
const RAISE_SEQUENCE = `SELECT take_user_ids(ARRAY[$1::bigint])`

/** Opens an empty database or an unfinished copy, which no other copy writes to. Throws `UnusableDatabase`. */
export async function openPostgresCopyTarget(
  location: PostgresLocation,
  answerTimeoutMs?: number,
): Promise<CopyTarget> {
  const options = { isWritten: true, answerTimeoutMs }
  const session = await openCopySession(location, options)
  let lock: CopySession | undefined
  try {
    if (await lacksSchema(session)) await createSchema(location)
    lock = await openCopySession(location, options)
    await lock.query({ text: 'BEGIN' })
    await lockForCopy(lock, 'target')
  } catch (error) {
    session.close()
    lock?.close()
    throw error
  }
  return createTarget(session, lock)
}

function createTarget(session: CopySession, lock: CopySession): CopyTarget {
  /** Without the lock another copy may have begun. */
  async function transaction<T>(work: () => Promise<T>): Promise<T> {
    lock.requireOpen()
    await run('BEGIN')
    try {
      await readInOrder(session)
      const result = await work()
      lock.requireOpen()
      await run('COMMIT')
      return result
    } catch (error) {
      // After a broken connection the server does this by itself.
      await run('ROLLBACK').catch(() => {})
      throw error
    }
  }

  const run = async (text: string, values: readonly unknown[] = []) => {
    await session.query({ text }, values)
  }

  return {
    ...createPostgresCopyReader(session),

    isFree: async () => {
      if (await isUnfinishedCopy(session)) return true
      const [row] = await session.query<[boolean]>({ text: SELECT_IS_USED })
      return row?.[0] === false
    },

    begin: () =>
      transaction(async () => {
        if (await isUnfinishedCopy(session)) await emptyTables(session)
        else await run(INSERT_MARK)
      }),

    addUsers: users => transaction(() => addPostgresUsers(session, users)),

    addIdempotencyKeys: keys => transaction(() => run(INSERT_KEYS, columnsOf(keys, 6))),

    addBans: bans =>
      transaction(() => {
        const rows = bans.map(([rule, clientKey, ...times]) => {
          return [toStored(rule), toStored(clientKey), ...times]
        })
        const hashes = bans.map(([rule, clientKey]) => hashOfBan({ rule, clientKey }))
        return run(INSERT_BANS, [...columnsOf(rows, 4), hashes])
      }),

    addApiKeys: keys => transaction(() => run(INSERT_API_KEYS, columnsOf(keys, 6))),

    finish: async ({ signingKeys, lastId, verify }) => {
      await transaction(async () => {
        await run(LOCK_TABLES)
        await run('DELETE FROM signing_keys')
        await run(INSERT_SIGNING_KEYS, columnsOf(signingKeys, 2))
        if (lastId > 0) await run(RAISE_SEQUENCE, [lastId])
        await verify()
        await run(DELETE_MARK)
      })
      // Faster first queries. Autovacuum does the same later, so that a failure does no harm.
      await run('ANALYZE users, users_words, idempotency_keys, bans').catch(() => {})
    },

    close: async () => {
      session.close()
      lock.close()
    },
  }
}
