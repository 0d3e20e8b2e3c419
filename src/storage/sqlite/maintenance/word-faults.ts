import { WORDS_VERSION } from '../../../users/words.ts'
import { WRONG_WORDS } from '../../check-rules.ts'
import type { IndexedUser } from '../../index-next-users.ts'
import type { Database } from '../sqlite-driver.ts'
import { prefixesOf } from '../word-index.ts'

/** The content of the index: each beginning of a word with the id of a user. */
const CREATE_VIEW = `CREATE VIRTUAL TABLE temp.indexed_words USING fts5vocab(main, users_words, instance)`

/** One of another version is built again anyway. */
const IS_CURRENT = `SELECT words_version = ${WORDS_VERSION} FROM users_words_state WHERE singleton = 1`

/** Users without words are still to be added. */
const SELECT_INDEXED = `
  SELECT term, doc FROM temp.indexed_words WHERE doc NOT IN (SELECT id FROM users_without_words)`

/** All users that the index should have. */
const SELECT_USERS = `
  SELECT id, name, email FROM users
  WHERE id NOT IN (SELECT id FROM users_without_words)
    AND id <= coalesce((SELECT indexed_through FROM users_words_state WHERE singleton = 1), 9223372036854775807)`

/**
 * Compares the index of words of a database of this release with the words of all users, which takes about 15 s for a million
 * users. FTS5 cannot check it, because it does not have the text. Returns faults.
 */
export function wordFaults(database: Database): readonly string[] {
  if (database.prepare(IS_CURRENT).pluck().get() !== 1) return []
  database.exec(CREATE_VIEW)
  const [indexed, expected] = [createSum(), createSum()]
  const rows = database.prepare<[], [string, number]>(SELECT_INDEXED).raw()
  for (const [prefix, id] of rows.iterate()) indexed.add(prefix, id)
  for (const user of database.prepare<[], IndexedUser>(SELECT_USERS).iterate()) {
    const prefixes = prefixesOf(user)
    if (prefixes !== '') for (const prefix of prefixes.split(' ')) expected.add(prefix, user.id)
  }
  return indexed.value() === expected.value() ? [] : [WRONG_WORDS]
}

/** Adds up hashes of pairs, so that their order does not matter: two sums of different pairs differ, except by 1 in 2^64. */
function createSum() {
  let count = 0
  let [low, high] = [0, 0]
  return {
    add: (prefix: string, id: number) => {
      let [one, other] = [id | 0, Math.floor(id / 2 ** 32) ^ 0x9e3779b9]
      for (let index = 0; index < prefix.length; index++) {
        const unit = prefix.charCodeAt(index)
        one = Math.imul(one ^ unit, 0x85ebca6b)
        one ^= one >>> 15
        other = Math.imul(other ^ unit, 0xc2b2ae35) + one
        other ^= other >>> 13
      }
      count++
      low = (low + one) | 0
      high = (high + Math.imul(other ^ (other >>> 16), 0x27d4eb2f)) | 0
    },
    value: () => `${count} ${low} ${high}`,
  }
}
