import type { WordDialect } from '../fold-words.ts'
import type { Database } from './sqlite-driver.ts'

/** The words of users as SQLite has them: a text. */
export const SQLITE_WORDS: WordDialect = {
  text: 'words',
  wordsFrom: text => text,
  elements: 'json_each($1)',
  noteChange: 'UPDATE users_summary SET revision = revision + 1',
}

/** Makes the index of words anew from the words of all users. Other writes wait meanwhile. */
export const REBUILD_INDEX = `INSERT INTO users_words (users_words) VALUES ('rebuild')`

/** Makes the index of words as small as it can be, without what deleted users had. */
export const OPTIMIZE_INDEX = `INSERT INTO users_words (users_words) VALUES ('optimize')`

/** Each word of the index with the id of a user. Its own check needs to write. */
const CREATE_VIEW = `
  CREATE VIRTUAL TABLE IF NOT EXISTS temp.indexed_words USING fts5vocab(main, users_words, instance)`

/**
 * If each indexed word is one of its user, and there are as many as the users have, then all are there. No rules make a user without
 * words: whoever wrote one may have left it out of the index, and FTS5 deletes none that is not there.
 */
const IS_WRONG = `
  SELECT EXISTS (SELECT 1 FROM users WHERE words = '') OR EXISTS (
      SELECT 1 FROM temp.indexed_words LEFT JOIN users ON users.id = doc
      WHERE coalesce(instr(' ' || words || ' ', ' ' || term || ' '), 0) = 0
    ) OR (SELECT count(*) FROM temp.indexed_words) <>
      (SELECT total(length(words) - length(replace(words, ' ', '')) + (words <> '')) FROM users)`

/** Whether the index of words differs from the words of the users. Throws if it is damaged. */
export function isIndexWrong(database: Database): boolean {
  database.exec(CREATE_VIEW)
  return database.prepare(IS_WRONG).pluck().get() === 1
}
