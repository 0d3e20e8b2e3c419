import { type NamedUser, WORDS_VERSION } from '../../users/words.ts'
import type { IndexingProgress } from '../storage.ts'
import type { IndexedWords } from '../word-filler.ts'
import type { Connections, Session } from './postgres-connections.ts'
import { upsertWords } from './user-words.ts'

/** How many users are indexed in a transaction. It takes about 20 ms, and a write of one of them waits for its end. */
const USERS_A_STEP = 500

/** One process at a time: others would wait for its locks. The lock ends with its transaction. */
const TRY_LOCK = `
  SELECT pg_try_advisory_xact_lock(('users_words'::regclass::oid::bigint << 32) + 2003792484)`

/** Locked, so that what has all users indexed again waits for this step, and is not overwritten by it. */
const SELECT_STATE = `
  SELECT words_version, indexed_through, (SELECT coalesce(max(id), 0) FROM users) FROM users_words_state
  FOR UPDATE`

/**
 * A service of an older release goes on with its own version, so a newer one stays. The revision changes, because lists with
 * words may become others.
 */
const BEGIN_ANEW = `
  WITH begun AS (
    UPDATE users_words_state SET words_version = ${WORDS_VERSION}, indexed_through = 0
  )
  SELECT note_user_changes(0, 1)`

const IS_OUTDATED_AND_EMPTY = `words_version < ${WORDS_VERSION} AND NOT EXISTS (SELECT FROM users)`

const SELECT_IS_OUTDATED_AND_EMPTY = `SELECT ${IS_OUTDATED_AND_EMPTY} FROM users_words_state`

const BEGIN_EMPTY = `
  UPDATE users_words_state SET words_version = ${WORDS_VERSION}, indexed_through = NULL
  WHERE ${IS_OUTDATED_AND_EMPTY}`

const SAVE_THROUGH = `UPDATE users_words_state SET indexed_through = $1`

/** The locks keep names and e-mails as they are until the words are there. */
const SELECT_NEXT = `
  SELECT id, name, email FROM users WHERE id > $1 ORDER BY id LIMIT ${USERS_A_STEP} FOR SHARE`

const DELETE_ORPHANS = `
  DELETE FROM users_words
  WHERE id > $1 AND id <= $2 AND NOT EXISTS (SELECT FROM users WHERE users.id = users_words.id)`

const SELECT_NOTED = `SELECT id FROM users_without_words ORDER BY id LIMIT ${USERS_A_STEP}`

const SELECT_USERS = `
  SELECT id, name, email FROM users WHERE id = ANY ($1::bigint[]) ORDER BY id FOR SHARE`

/** After the users are locked, nobody notes them again before the commit. */
const DELETE_NOTED = `DELETE FROM users_without_words WHERE id = ANY ($1::bigint[])`

const MAX_ID = Number.MAX_SAFE_INTEGER

/** SQL for the id up to which all users have words, but for those in `users_without_words`. */
export const INDEXED_THROUGH = `
  SELECT CASE WHEN words_version >= ${WORDS_VERSION} THEN coalesce(indexed_through, ${MAX_ID}) ELSE 0 END
  FROM users_words_state`

/** SQL for whether all words are indexed. Reads the least id by the index, because the table may have many deleted rows. */
export const SELECT_ARE_WORDS_INDEXED = `
  SELECT indexed_through IS NULL AND words_version >= ${WORDS_VERSION}
    AND (SELECT id FROM users_without_words ORDER BY id LIMIT 1) IS NULL
  FROM users_words_state`

/** The same, or whether one with newer rules keeps the index. */
const SELECT_IS_INDEXED_OR_NEWER = `
  SELECT words_version > ${WORDS_VERSION} OR (${SELECT_ARE_WORDS_INDEXED}) FROM users_words_state`

/** Others wait meanwhile. */
const SET_LOCK_PATIENCE = `SELECT set_config('lock_timeout', '500', true)`

/** Waits for the writes that run: by the former version they took their words for right. */
const LOCK_USERS = `LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`

type StateRow = readonly [version: number, through: number | null, lastId: number]

type UserRow = readonly [id: number, name: string, email: string]

/** The words of all users, which a service or `migrate` completes. */
export function indexedWords(connections: Connections): IndexedWords {
  return {
    areComplete: async () => {
      return (await connections.query(SELECT_IS_INDEXED_OR_NEWER))[0]?.[0] === true
    },
    addNext: () => connections.transaction(indexNextUsers, { lane: 'long' }),
  }
}

/**
 * Indexes the next users that have no words, or wrong ones, unless one with newer rules has to. Returns `undefined` while another
 * process does it.
 */
async function indexNextUsers(session: Session): Promise<IndexingProgress | undefined> {
  const [[hasLock] = [false]] = await session.query<[boolean]>(TRY_LOCK)
  if (!hasLock) return undefined
  const [state] = await session.query<StateRow>(SELECT_STATE)
  const [version, indexedThrough, lastId] = state as StateRow
  if (version > WORDS_VERSION) return { isComplete: true, through: lastId, lastId }
  const isOutdated = version < WORDS_VERSION
  if (isOutdated) {
    await session.query(SET_LOCK_PATIENCE)
    await session.query(LOCK_USERS)
    await session.query(BEGIN_ANEW)
  }
  const after = isOutdated ? 0 : indexedThrough
  const through = after === null ? undefined : await indexAfter(session, after)
  // Others may have been noted meanwhile.
  const last = through ?? (await indexNoted(session))
  return { isComplete: last === undefined, through: last ?? lastId, lastId }
}

/** Makes the index of a database without users one of this release, so that users that come have words at once. */
export async function beginEmptyWords(connections: Connections): Promise<void> {
  const [[isOutdated] = [false]] = await connections.query<[boolean]>(SELECT_IS_OUTDATED_AND_EMPTY)
  if (isOutdated) await connections.write(BEGIN_EMPTY)
}

/** Has all users indexed again. */
export async function forgetIndexedWords(connections: Connections): Promise<void> {
  await connections.write(BEGIN_ANEW, [], { lane: 'long' })
}

/** Indexes the next users after an id. Returns the id of the last one; `undefined` if no more follow. */
async function indexAfter(session: Session, through: number): Promise<number | undefined> {
  const users = await session.query<UserRow>(SELECT_NEXT, [through])
  await upsertWords(session, users.map(toUser))
  const last = users[USERS_A_STEP - 1]?.[0]
  await session.query(DELETE_ORPHANS, [through, last ?? MAX_ID])
  await session.query(SAVE_THROUGH, [last ?? null])
  return last
}

/** Indexes users that were noted, in the same way. */
async function indexNoted(session: Session): Promise<number | undefined> {
  const noted = await session.query<[number]>(SELECT_NOTED)
  const ids = noted.map(([id]) => id)
  if (ids.length > 0) {
    const users = await session.query<UserRow>(SELECT_USERS, [ids])
    await upsertWords(session, users.map(toUser))
    await session.query(DELETE_NOTED, [ids])
  }
  return ids[USERS_A_STEP - 1]
}

function toUser([id, name, email]: UserRow): NamedUser & { readonly id: number } {
  return { id, name, email }
}
