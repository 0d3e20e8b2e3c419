import { usedUp } from '../../users/stored-user.ts'
import { emailKey } from '../../users/transfer/import-decisions.ts'
import type { ImportKeys } from '../../users/transfer/user-import-store.ts'
import type { UserRow } from '../../users/user-repository.ts'
import { foldCase } from '../../users/user-schemas.ts'
import { type Connections, columnsOf, type Row, type Session } from './postgres-connections.ts'
import { NO_MORE_IDS, sqlStateOf } from './postgres-errors.ts'
import { DECLARES_WORDS, insertWords, upsertWords, wordsText } from './user-words.ts'

/** For each e-mail a look into the index (`OFFSET 0`), because PostgreSQL prefers to read all of a table of medium size. */
const SELECT_USERS = `
  SELECT id, name, email, password_digest, created_at, updated_at FROM users
  WHERE id = ANY(ARRAY(
    SELECT id FROM unnest($1::text[]) AS wanted (email)
      CROSS JOIN LATERAL (SELECT id FROM users WHERE email_lower = wanted.email OFFSET 0) AS found
  ) || $2::bigint[])`

/** Locks users in the same order as all other writes, which keeps two of them from waiting for each other. */
const SELECT_AND_LOCK_USERS = `${SELECT_USERS} ORDER BY id FOR NO KEY UPDATE`

const TAKE_IDS = `SELECT unnest(take_user_ids($1::bigint[]))`

const COLUMNS = 'id, name, name_lower, email, password_digest, updated_at'

const UNNEST = `
  unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]`

/** In the order of creates by requests, so that an import and a request wait for each other in one direction only. */
const INSERT = `
  INSERT INTO users (${COLUMNS}, created_at)
  SELECT ${COLUMNS}, created_at FROM ${UNNEST}, $7::text[]) AS new (${COLUMNS}, created_at)
  WHERE ${DECLARES_WORDS}
  ORDER BY lower(email COLLATE "C")
  ON CONFLICT DO NOTHING
  RETURNING id`

/** E-mails that no user can have, until the next statement sets the new ones. */
const PARK_EMAILS = `UPDATE users SET email = '#' || id WHERE id = ANY($1::bigint[]) AND ${DECLARES_WORDS}`

const UPDATE = `
  UPDATE users SET name = changed.name, name_lower = changed.name_lower, email = changed.email,
    password_digest = changed.password_digest, updated_at = changed.updated_at
  FROM ${UNNEST}) AS changed (${COLUMNS})
  WHERE users.id = changed.id AND ${DECLARES_WORDS}`

/** The users with the e-mail or the id of a row. With `isLocked`, nobody else can change or delete them until the commit. */
export async function readUsersOf(
  session: Session,
  rows: readonly ImportKeys[],
  { isLocked = false } = {},
): Promise<UserRow[]> {
  type FoundRow = [
    id: number,
    name: string,
    email: string,
    passwordDigest: string | null,
    createdAt: string,
    updatedAt: string,
  ]
  const text = isLocked ? SELECT_AND_LOCK_USERS : SELECT_USERS
  const emails = rows.map(({ email }) => emailKey(email))
  const ids = rows.flatMap(({ id }) => id ?? [])
  const found = await session.query<FoundRow>(text, [emails, ids])
  return found.map(([id, name, email, passwordDigest, createdAt, updatedAt]) => {
    return { id, name, email, passwordDigest, createdAt, updatedAt }
  })
}

/**
 * Ids for new users, one for each of `wanted`: that one, or the next. No other user ever gets them. Throws `storage_damaged` if
 * none is left.
 */
export async function takeIds(
  connections: Connections,
  wanted: readonly (number | undefined)[],
): Promise<number[]> {
  try {
    const rows = await connections.write<[number]>(TAKE_IDS, [wanted], { lane: 'long' })
    return rows.map(([id]) => id)
  } catch (error) {
    throw sqlStateOf(error) === NO_MORE_IDS ? usedUp('ids') : error
  }
}

/**
 * Returns how many it could insert: the others have an id or an e-mail that a user has. If there are any, the transaction must
 * be rolled back, because some have no words yet.
 */
export async function insertUsers(session: Session, users: readonly UserRow[]): Promise<number> {
  const values = columnsOf(users.map(user => [...toRow(user), user.createdAt]))
  const inserting = session.query(INSERT, values)
  // While the server inserts.
  const words = users.map(wordsText)
  const { length } = await inserting
  if (length === users.length) await insertWords(session, users, words)
  return length
}

/** Sets the columns of existing users. `parkedIds` are those whose present e-mail becomes that of another. */
export async function updateUsers(
  session: Session,
  users: readonly UserRow[],
  parkedIds: readonly number[],
): Promise<void> {
  if (parkedIds.length > 0) await session.query(PARK_EMAILS, [parkedIds])
  await session.query(UPDATE, columnsOf(users.map(toRow)))
  await upsertWords(session, users)
}

/** The columns of `COLUMNS`. */
function toRow({ id, name, email, passwordDigest, updatedAt }: UserRow): Row {
  return [id, name, foldCase(name), email, passwordDigest, updatedAt]
}
