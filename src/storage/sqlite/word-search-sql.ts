import { type CandidateShape, candidateColumns } from './candidates-sql.ts'

/** FTS5 seeks only to an integer, and better-sqlite3 binds numbers as floating point. */
const integer = (parameter: string) => `CAST(${parameter} AS INTEGER)`

function wordIdsSql(descending: boolean): string {
  const [beyond, upTo, direction] = descending ? ['<', '>=', 'DESC'] : ['>', '<=', 'ASC']
  return `
    SELECT rowid AS word_id FROM users_words
    WHERE users_words MATCH @match AND rowid ${beyond} ${integer('@from')} AND rowid ${upTo} ${integer('@to')}
    ORDER BY rowid ${direction} LIMIT @count`
}

/** Up to `@count` candidates by the index of words, by id: after `@from`, up to `@to`. */
export function wordCandidatesSql(shape: CandidateShape): string {
  return `
    SELECT word_id, ${candidateColumns(shape)}, '' FROM (${wordIdsSql(shape.descending)})
    LEFT JOIN users ON users.id = word_id`
}

/** The number of the next `@count` ids in the index of words after `@from`, and the last of them. */
export const COUNT_WORD_IDS = `SELECT count(*), max(word_id) FROM (${wordIdsSql(false)})`

export const SELECT_LAST_ID = `SELECT max(id) FROM users`
