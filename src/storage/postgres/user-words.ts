import { type NamedUser, WORDS_VERSION, wordsOfUser } from '../../users/words.ts'
import { type IndexedUser, IS_OUTDATED_AND_EMPTY, type WordDialect } from '../index-next-users.ts'
import type { Asked } from '../programs.ts'
import type { Connections } from './postgres-connections.ts'

/** The words of a user as one parameter. Words have no blanks. */
export function wordsText(user: NamedUser): string {
  return wordsOfUser(user).join(' ')
}

/** SQL for the value of `users_words.words`, from SQL for a text of `wordsText`. */
export function vectorOf(text: string): string {
  return `array_to_tsvector(string_to_array(${text}, ' '))`
}

/**
 * A condition that always holds, for its effect. SQL cannot make words, so the triggers of migration 0009 note each user that is
 * written without them in `users_without_words`. This tells them that the statement, or its transaction, writes the words
 * of all users whose names or e-mails it writes. It says nothing if the index has newer rules of words than these.
 */
export const DECLARES_WORDS = `(
  SELECT set_config('user_records.words', CASE WHEN (
    SELECT words_version FROM users_words_state) <= ${WORDS_VERSION} THEN 'written' ELSE '' END, true)
  ) IS NOT NULL`

/** For `INSERT INTO users_words AS former`. A word list that stays the same costs no change of the index. */
export const REPLACE_WORDS = `
  ON CONFLICT (id) DO UPDATE SET words = excluded.words WHERE former.words <> excluded.words`

const UPSERT = `
  INSERT INTO users_words AS former (id, words)
  SELECT id, ${vectorOf('words')} FROM unnest($1::bigint[], $2::text[]) AS named (id, words) ORDER BY id
  ${REPLACE_WORDS}`

/** What writes the words of users that the transaction has inserted or locked. */
export function wordsUpsert(users: readonly IndexedUser[]): Asked {
  return { sql: UPSERT, values: [users.map(({ id }) => id), users.map(wordsText)] }
}

/** Others wait meanwhile. */
const SET_LOCK_PATIENCE = `SELECT set_config('lock_timeout', '500', true)`

/** Waits for the writes that run: they made their words by the previous version. */
const LOCK_USERS = `LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE`

/** The revision changes, because lists with words may become others. */
const BEGIN_ANEW = `
  WITH begun AS (
    UPDATE users_words_state SET words_version = ${WORDS_VERSION}, indexed_through = 0
  )
  SELECT note_user_changes(0, 1)`

const SELECT_IS_OUTDATED_AND_EMPTY = `SELECT ${IS_OUTDATED_AND_EMPTY} FROM users_words_state`

const BEGIN_EMPTY = `
  UPDATE users_words_state SET words_version = ${WORDS_VERSION}, indexed_through = NULL
  WHERE ${IS_OUTDATED_AND_EMPTY}`

/** How PostgreSQL keeps the words of users. A step takes about 20 ms, and a write of one of its users waits for its end. */
export const WORD_DIALECT: WordDialect = {
  usersAStep: 500,
  // Others would wait for its locks. This one ends with its transaction.
  tryLock: `SELECT pg_try_advisory_xact_lock(('users_words'::regclass::oid::bigint << 32) + 2003792484)`,
  idsOfSet: 'SELECT json_array_elements_text($1)::bigint',
  beginAnew: [SET_LOCK_PATIENCE, LOCK_USERS, BEGIN_ANEW],
  *put(users) {
    if (users.length > 0) yield wordsUpsert(users)
  },
  deleteOrphans: `
    DELETE FROM users_words
    WHERE id > $1 AND id <= $2 AND NOT EXISTS (SELECT FROM users WHERE users.id = users_words.id)`,
}

/** Makes the index of a database without users one of this release, so that users that come have words at once. */
export async function beginEmptyWords(connections: Connections): Promise<void> {
  const [[isOutdated] = [false]] = await connections.query<[boolean]>(SELECT_IS_OUTDATED_AND_EMPTY)
  if (isOutdated) await connections.write(BEGIN_EMPTY)
}

/** Has all users indexed again. */
export async function forgetIndexedWords(connections: Connections): Promise<void> {
  await connections.write(BEGIN_ANEW, [], { share: 'long' })
}
