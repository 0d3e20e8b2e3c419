import { type NamedUser, WORDS_VERSION, wordsOfUser } from '../../users/words.ts'
import type { Asked } from '../programs.ts'
import type { Session } from './postgres-connections.ts'

/** The words of a user as one parameter. Words have no blanks. */
export function wordsText(user: NamedUser): string {
  return wordsOfUser(user).join(' ')
}

/** SQL for the value of `users_words.words`, from SQL for a text of `wordsText`. */
export function vectorOf(text: string): string {
  return `array_to_tsvector(string_to_array(${text}, ' '))`
}

/**
 * A condition that always holds, for its effect. It tells the triggers of `users` that the statement, or its transaction,
 * writes the words of all users whose names or e-mails it writes. Otherwise, and if the index has newer rules of words than
 * these, the triggers note the users in `users_without_words`.
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

type WordedUser = NamedUser & { readonly id: number }

/** What writes the words of users that the transaction has inserted or locked. */
export function wordsUpsert(users: readonly WordedUser[]): Asked {
  return { sql: UPSERT, values: [users.map(({ id }) => id), users.map(wordsText)] }
}

/** Writes the words of users that the transaction of the session has locked. */
export async function upsertWords(session: Session, users: readonly WordedUser[]): Promise<void> {
  if (users.length === 0) return
  const { sql, values } = wordsUpsert(users)
  await session.query(sql, values)
}
