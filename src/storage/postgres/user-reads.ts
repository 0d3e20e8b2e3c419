import { idempotentCreateOf, idOf, storedUser } from '../../users/stored-user.ts'
import type { StoredUser, UserReads, UserWithDigest } from '../../users/user-repository.ts'
import { emailKey } from '../../users/user-schemas.ts'
import type { WordDialect } from '../fold-words.ts'
import { joinCalls, joinLookups } from '../join-calls.ts'
import type { Connections, Statement } from './postgres-connections.ts'

/** SQL for the JSON of a user of `table` as clients see it. */
export function representationOf(table: string): string {
  return `'{"id":' || ${table}.id || ${table}.shown`
}

/** The same for the table `users` itself. */
export const REPRESENTATION = representationOf('users')

/** SQL for the revision of the users, over all slots. Its form is that of SQLite: 12 hexadecimal digits, and a number that grows. */
export const SELECT_REVISION = `
  SELECT lpad(to_hex(sum(mark)::bigint % 281474976710656), 12, '0') || '-' || sum(revision)
  FROM users_summary`

/** The words of users as PostgreSQL has them: a `tsvector`, which its index is made of. */
export const POSTGRES_WORDS: WordDialect = {
  text: `array_to_string(tsvector_to_array(words), ' ')`,
  wordsFrom: text => `array_to_tsvector(string_to_array(${text}, ' '))`,
  elements: 'jsonb_array_elements($1) AS elements (value)',
  noteChange: 'SELECT note_user_changes(0, 1)',
}

const FIND_ONE: Statement = {
  name: 'find_user',
  text: `SELECT ${REPRESENTATION} FROM users WHERE id = $1`,
}

const FIND_MANY: Statement = {
  name: 'find_users',
  text: `SELECT ${REPRESENTATION} FROM users WHERE id = ANY ($1::bigint[])`,
}

const FIND_BY_EMAIL: Statement = {
  name: 'find_by_email',
  text: `
    SELECT email_lower, ${REPRESENTATION}, password_digest
    FROM users WHERE email_lower = ANY ($1::text[])`,
}

const FIND_WITH_DIGEST: Statement = {
  name: 'find_with_digest',
  text: `SELECT ${REPRESENTATION}, password_digest FROM users WHERE id = ANY ($1::bigint[])`,
}

const FIND_OWNERS: Statement = {
  name: 'find_owners',
  text: `SELECT email_lower, id FROM users WHERE email_lower = ANY ($1::text[])`,
}

const FIND_KEYS: Statement = {
  name: 'find_keys',
  text: `
    SELECT key_hash, fingerprint, user_json
    FROM idempotency_keys WHERE key_hash = ANY ($1::bytea[]) AND expires_at > $2`,
}

const FIND_REVISION: Statement = { name: 'find_revision', text: SELECT_REVISION }

/** A row of `idempotency_keys`. */
type KeyRow = readonly [keyHash: Buffer, fingerprint: string | null, userJson: string | null]

/** The short reads of users. Calls of one turn of the event loop share one query for each kind. */
export type ShortReads = Omit<UserReads, 'list' | 'scan' | 'ping'>

/** `ShortReads` on these connections. `steadyNow` is that of `OpenStorageOptions`. */
export function createShortReads(connections: Connections, steadyNow: () => number): ShortReads {
  const read = connections.query

  const find = joinLookups<number, StoredUser>(async ids => {
    const rows = await (ids.length === 1
      ? read<[string]>(FIND_ONE, [ids[0]])
      : read<[string]>(FIND_MANY, [ids]))
    return rows.map(([json]) => [idOf(json), storedUser(json)])
  })

  const findByEmail = joinLookups<string, UserWithDigest>(async emails => {
    const rows = await read<[string, string, string | null]>(FIND_BY_EMAIL, [emails])
    return rows.map(([email, json, passwordDigest]) => [
      email,
      { user: storedUser(json), passwordDigest },
    ])
  })

  const findWithDigest = joinLookups<number, UserWithDigest>(async ids => {
    const rows = await read<[string, string | null]>(FIND_WITH_DIGEST, [ids])
    return rows.map(([json, passwordDigest]) => [
      idOf(json),
      { user: storedUser(json), passwordDigest },
    ])
  })

  const findOwner = joinLookups<string, number>(emails => read(FIND_OWNERS, [emails]))

  const findKey = joinLookups<string, KeyRow>(async hashes => {
    const found = hashes.map(hash => Buffer.from(hash, 'hex'))
    const rows = await read<KeyRow>(FIND_KEYS, [found, steadyNow()])
    return rows.map(row => [row[0].toString('hex'), row])
  })

  const readRevision = joinCalls<undefined, string>({
    run: async asked => {
      const [row] = await read<[string]>(FIND_REVISION)
      const [value] = row as [string]
      return asked.map(() => ({ value }))
    },
  })

  return {
    find,

    findByEmail: email => findByEmail(emailKey(email)),

    findWithDigest,

    findIdempotentCreate: async keyHash => {
      const row = await findKey(keyHash.toString('hex'))
      return row && idempotentCreateOf(row[1], row[2])
    },

    isEmailTaken: async (email, exceptId) => {
      const owner = await findOwner(emailKey(email))
      return owner !== undefined && owner !== exceptId
    },

    revision: () => readRevision(undefined),
  }
}
