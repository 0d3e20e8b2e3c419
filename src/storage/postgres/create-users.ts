import { ServiceError } from '../../errors.ts'
import { storedUser, usedUp } from '../../users/stored-user.ts'
import {
  EXPIRED_KEYS_A_CLAIM,
  IDEMPOTENCY_TTL_MS,
  type IdempotencyClaim,
  type NewUser,
  type StoredUser,
  type UserRepository,
} from '../../users/user-repository.ts'
import { emailKey, foldCase } from '../../users/user-schemas.ts'
import { wordsOfUser } from '../../users/words.ts'
import type { OpenStorageOptions } from '../storage.ts'
import { type ContendedWrites, HELD, joinWrites } from './contended-writes.ts'
import { type Connections, columnsOf, type Row, type Statement } from './postgres-connections.ts'
import { NO_MORE_IDS, sqlStateOf, violates } from './postgres-errors.ts'
import { POSTGRES_WORDS, REPRESENTATION, type ShortReads } from './user-reads.ts'

interface Create {
  readonly users: readonly NewUser[]
  readonly claim: IdempotencyClaim | undefined
}

/**
 * Sorted, so that two statements wait for each other's e-mails in one direction only. No two of a statement have one e-mail.
 * The ids are in the order of the users; by default they would be in that of the e-mails.
 */
const CREATED = `
  created AS (
    INSERT INTO users (id, name, name_lower, email, password_digest, words, created_at, updated_at)
    SELECT id, name, name_lower, email, password_digest, ${POSTGRES_WORDS.wordsFrom('words')}, $6, $6
    FROM (
      SELECT nextval('users_id_seq') AS id, *
      FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
        AS wanted (name, name_lower, email, password_digest, words)
    ) AS numbered
    ORDER BY lower(email COLLATE "C")
    ON CONFLICT ON CONSTRAINT users_email_unique DO NOTHING
    RETURNING id, email, ${REPRESENTATION} AS json
  )`

const CREATE: Statement = {
  name: 'create_users',
  text: `WITH ${CREATED} SELECT email, json FROM created`,
}

/** A claimed key may have expired. The join makes the server delete it before it is inserted again. */
const CREATE_WITH_KEYS: Statement = {
  name: 'create_users_with_keys',
  text: `
    WITH freed AS (
      DELETE FROM idempotency_keys WHERE key_hash = ANY (ARRAY(
        SELECT key_hash FROM idempotency_keys WHERE key_hash = ANY ($8::bytea[]) AND expires_at <= $11
        ORDER BY key_hash FOR UPDATE
      ) || ARRAY(
        SELECT key_hash FROM idempotency_keys WHERE expires_at <= $11
        ORDER BY expires_at LIMIT ${EXPIRED_KEYS_A_CLAIM} * cardinality($8) FOR UPDATE SKIP LOCKED
      ))
      RETURNING key_hash
    ), ${CREATED}, claimed AS (
      INSERT INTO idempotency_keys (key_hash, user_id, fingerprint, user_json, expires_at)
      SELECT key_hash, id, fingerprint, json, $10
      FROM unnest($7::text[], $8::bytea[], $9::text[]) AS claim (email, key_hash, fingerprint)
      JOIN created USING (email) LEFT JOIN freed USING (key_hash)
      ORDER BY key_hash
    )
    SELECT email, json FROM created`,
}

/**
 * Lets the sequence go on after all users: other programs write their own ids, and logical replication copies users without it. At
 * once, as SQLite does, and not id by id.
 */
export const PASS_USED_IDS = `SELECT take_user_ids(ARRAY[max(id)]) FROM users`

type CreatedRow = readonly [email: string, json: string]

/** What the writes of users share. */
export interface UserWriteParts extends Pick<OpenStorageOptions, 'now' | 'steadyNow'> {
  readonly connections: Connections
  readonly contended: ContendedWrites
  readonly reads: ShortReads
}

/** `create` of `UserRepository`, with one statement for the calls of one turn of the event loop. */
export function createUserCreate(parts: UserWriteParts): UserRepository['create'] {
  const { connections, contended, reads, now, steadyNow } = parts

  /** What writes the creates, and its values. It returns a `CreatedRow` for each user whose e-mail was free. */
  function statementOf(creates: readonly Create[]): [Statement, readonly unknown[]] {
    const rows = creates.flatMap(({ users }) => users.map(toRow))
    const values = [...columnsOf(rows), new Date(now()).toISOString()]
    const claims = creates.flatMap(({ users, claim }): Row[] =>
      claim ? [[users[0]?.email, claim.keyHash, claim.fingerprint]] : [],
    )
    if (claims.length === 0) return [CREATE, values]
    const time = steadyNow()
    return [CREATE_WITH_KEYS, [...values, ...columnsOf(claims), time + IDEMPOTENCY_TTL_MS, time]]
  }

  const insert = joinWrites<Create, readonly (StoredUser | undefined)[]>(
    async (creates, options) => {
      const rows = await connections.write<CreatedRow>(...statementOf(creates), {
        ...options,
        countWrites: ({ length }) => length,
      })
      const created = new Map(rows.map(([email, json]) => [email, storedUser(json)]))
      return creates.map(({ users }) => ({ value: users.map(({ email }) => created.get(email)) }))
    },
  )

  return async (users, claim) => {
    const keys = users.map(({ email }) => emailKey(email))
    if (claim !== undefined) keys.push(claim.keyHash.toString('hex'))
    try {
      const made = await contended.run(keys, write =>
        write(insert, { users, claim }).catch(async error => {
          if (!violates(error, 'users_primary_key')) throw error
          await connections.write(PASS_USED_IDS, [], { share: 'short' })
          throw HELD
        }),
      )
      if (claim === undefined || made[0] !== undefined) return made
      // A used key matters more than a taken e-mail. It is looked up after the write, so that nothing can fail behind one.
      if ((await reads.findIdempotentCreate(claim.keyHash)) === undefined) return made
    } catch (error) {
      if (sqlStateOf(error) === NO_MORE_IDS) throw usedUp('ids')
      if (!violates(error, 'idempotency_keys_primary_key')) throw error
    }
    throw new ServiceError('idempotency_key_in_use')
  }
}

function toRow(user: NewUser): Row {
  const { name, email, passwordDigest } = user
  return [name, foldCase(name), email, passwordDigest, wordsOfUser(user)]
}
