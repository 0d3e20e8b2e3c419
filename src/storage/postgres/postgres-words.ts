import type { WordDialect } from '../fold-words.ts'

/** The words of users as PostgreSQL has them: a `tsvector`, which its index is made of. */
export const POSTGRES_WORDS: WordDialect = {
  text: `array_to_string(tsvector_to_array(words), ' ')`,
  wordsFrom: text => `array_to_tsvector(string_to_array(${text}, ' '))`,
  elements: 'jsonb_array_elements($1) AS elements (value)',
  noteChange: 'SELECT note_user_changes(0, 1)',
}
