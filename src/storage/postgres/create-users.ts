import { ServiceError } from '../../errors.ts'
import { usedUp } from '../../users/used-up.ts'
import { foldCase } from '../../users/user.ts'
import { storedUser } from '../../users/user-json.ts'
import {
  IDEMPOTENCY_TTL_MS,
  type IdempotencyClaim,
  type NewUser,
  type StoredUser,
} from '../../users/user-repository.ts'
import type { Closing, Outcome } from './batches.ts'
import type { Connections, Session, Statement } from './postgres-connections.ts'
import { sqlStateOf, violates } from './postgres-errors.ts'
import { REPRESENTATION } from './user-reads.ts'
import { createWriteBatches } from './write-batches.ts'

interface Create {
  readonly user: NewUser
  readonly emailLower: string
  readonly claim: IdempotencyClaim | undefined
}

/** Sorted, so that two batches wait for each other's e-mails in one direction only. */
const INSERT = `
  INSERT INTO users (name, name_lower, email, password_digest, created_at, updated_at)
  SELECT name, name_lower, email, password_digest, $5, $5
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])
    AS wanted (name, name_lower, email, password_digest)
  ORDER BY lower(email COLLATE "C")
  ON CONFLICT ON CONSTRAINT users_email_unique DO NOTHING`

const CREATE: Statement = {
  name: 'create_users',
  text: `${INSERT} RETURNING email, ${REPRESENTATION}`,
}

const CREATE_WITH_KEYS: Statement = {
  name: 'create_users_with_keys',
  text: `
    WITH created AS (
      ${INSERT} RETURNING id, email, updated_at, ${REPRESENTATION} AS json
    ), claimed AS (
      INSERT INTO idempotency_keys (key_hash, user_id, fingerprint, user_version, user_json, expires_at)
      SELECT key_hash, id, fingerprint, updated_at, json, $9
      FROM unnest($6::text[], $7::bytea[], $8::text[]) AS claim (email, key_hash, fingerprint)
      JOIN created USING (email)
      ORDER BY key_hash
    )
    SELECT email, json FROM created`,
}

const SELECT_KEYS: Statement = {
  name: 'select_used_keys',
  text: `
    SELECT key_hash FROM idempotency_keys
    WHERE key_hash = ANY ($1::bytea[]) AND expires_at > $2`,
}

/** Each new key deletes up to this many expired ones, which is faster than they can be added. */
const EXPIRED_KEYS_A_SWEEP = 2

const DELETE_EXPIRED_KEYS: Statement = {
  name: 'delete_expired_keys',
  text: `
    DELETE FROM idempotency_keys WHERE key_hash IN (
      SELECT key_hash FROM idempotency_keys WHERE expires_at <= $1
      ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)`,
}

const DELETE_EXPIRED_KEY: Statement = {
  name: 'delete_expired_key',
  text: 'DELETE FROM idempotency_keys WHERE key_hash = $1 AND expires_at <= $2',
}

export interface CreateUsersOptions {
  readonly connections: Connections
  readonly closing: Closing
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds since the epoch that do not jump when the machine's clock is set. */
  readonly steadyNow: () => number
  readonly maxWaiting: number
}

/** `UserRepository.create`, with one statement for the calls of one turn of the event loop. */
export function createUserCreator(
  options: CreateUsersOptions,
): (user: NewUser, claim?: IdempotencyClaim) => Promise<StoredUser> {
  const { connections, closing, now, steadyNow, maxWaiting } = options

  async function write(
    session: Session,
    creates: readonly Create[],
    isAlone: boolean,
  ): Promise<readonly Outcome<StoredUser>[]> {
    const [only] = creates
    // Only an expired key is deleted, and no other process may use it meanwhile: it waits for this transaction.
    if (isAlone && only?.claim !== undefined) {
      await session.query(DELETE_EXPIRED_KEY, [only.claim.keyHash, steadyNow()])
    }
    const created = new Map(await insert(session, creates))
    const usedKeys = await findUsedKeys(
      session,
      creates.filter(({ user }) => !created.has(user.email)),
    )
    return creates.map(({ user, claim }) => {
      const json = created.get(user.email)
      if (json !== undefined) return { value: storedUser(json) }
      const isUsed = claim !== undefined && usedKeys.has(claim.keyHash.toString('hex'))
      return { error: new ServiceError(isUsed ? 'idempotency_key_in_use' : 'email_taken') }
    })
  }

  function insert(
    session: Session,
    creates: readonly Create[],
  ): Promise<readonly (readonly [email: string, json: string])[]> {
    const users = creates.map(({ user }) => user)
    const values = [
      users.map(({ name }) => name),
      users.map(({ name }) => foldCase(name)),
      users.map(({ email }) => email),
      users.map(({ passwordDigest }) => passwordDigest),
      new Date(now()).toISOString(),
    ]
    const claims = creates.flatMap(({ user, claim }) =>
      claim ? { email: user.email, ...claim } : [],
    )
    if (claims.length === 0) return session.query(CREATE, values)
    return session.query(CREATE_WITH_KEYS, [
      ...values,
      claims.map(({ email }) => email),
      claims.map(({ keyHash }) => keyHash),
      claims.map(({ fingerprint }) => fingerprint),
      steadyNow() + IDEMPOTENCY_TTL_MS,
    ])
  }

  /** A used key matters more than a taken e-mail. */
  async function findUsedKeys(
    session: Session,
    refused: readonly Create[],
  ): Promise<ReadonlySet<string>> {
    const hashes = refused.flatMap(({ claim }) => claim?.keyHash ?? [])
    if (hashes.length === 0) return new Set()
    const rows = await session.query<[Buffer]>(SELECT_KEYS, [hashes, steadyNow()])
    return new Set(rows.map(([hash]) => hash.toString('hex')))
  }

  /** Not awaited by those who create: what fails here is deleted by the next one. */
  function sweepExpiredKeys(): void {
    connections
      .write(session => session.query(DELETE_EXPIRED_KEYS, [steadyNow(), EXPIRED_KEYS_A_SWEEP]))
      .catch(() => {})
  }

  const batches = createWriteBatches<Create, StoredUser>({
    connections,
    closing,
    maxWaiting,
    keysOf: ({ emailLower, claim }) =>
      claim === undefined ? [emailLower] : [emailLower, claim.keyHash.toString('hex')],
    write,
  })

  return async (user, claim) => {
    try {
      const created = await batches.add({ user, emailLower: user.email.toLowerCase(), claim })
      if (claim !== undefined) sweepExpiredKeys()
      return created
    } catch (error) {
      if (violates(error, 'idempotency_keys_primary_key')) {
        throw new ServiceError('idempotency_key_in_use')
      }
      throw sqlStateOf(error) === NO_MORE_IDS ? usedUp('ids') : error
    }
  }
}

/** The sequence has reached its end. */
const NO_MORE_IDS = '2200H'
