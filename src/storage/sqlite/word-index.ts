import { type NamedUser, WORDS_VERSION } from '../../users/words.ts'
import type { Database } from './sqlite-driver.ts'
import { prefixesOf } from './word-prefixes.ts'

/** How many users the index of words has yet to hold. */
export interface WordIndexProgress {
  readonly isComplete: boolean
  /** All users up to this id are in the index. */
  readonly through: number
}

/** The table `users_words`. Call it within a transaction. */
export interface WordIndex {
  add(id: number, user: NamedUser): void
  /** `user` must be as it was when it was added. */
  remove(id: number, user: NamedUser): void
  /** The greatest id whose user is in the index; infinite once all are. */
  through(): number
  /** Adds up to `limit` of the users that are not in it, in the order of their ids. */
  addNext(limit: number): WordIndexProgress
}

interface UserRow extends NamedUser {
  readonly id: number
}

const ADD = `INSERT INTO users_words (rowid, prefixes) VALUES (?, ?)`

/** FTS5 does not keep the text, so it needs exactly what was inserted. */
const REMOVE = `INSERT INTO users_words (users_words, rowid, prefixes) VALUES ('delete', ?, ?)`

const SELECT_THROUGH = `SELECT indexed_through FROM users_words_state WHERE singleton = 1`

const UPDATE_THROUGH = `UPDATE users_words_state SET indexed_through = ? WHERE singleton = 1`

const SELECT_NEXT = `SELECT id, name, email FROM users WHERE id > ? ORDER BY id LIMIT ?`

const SELECT_IS_READY = `
  SELECT indexed_through IS NULL AND words_version = ${WORDS_VERSION}
  FROM users_words_state WHERE singleton = 1`

/** The revision changes, because lists with words may become others. */
const CLEAR = `
  INSERT INTO users_words (users_words) VALUES ('delete-all');
  UPDATE users_words_state
  SET words_version = ${WORDS_VERSION}, indexed_through = CASE WHEN EXISTS (SELECT 1 FROM users) THEN 0 END;
  UPDATE users_summary SET revision = revision + 1`

const SELECT_VERSION = `SELECT words_version FROM users_words_state WHERE singleton = 1`

export function createWordIndex(database: Database): WordIndex {
  const add = database.prepare<[number, string]>(ADD)
  const remove = database.prepare<[number, string]>(REMOVE)
  const selectThrough = database.prepare<[], number | null>(SELECT_THROUGH).pluck()
  const updateThrough = database.prepare<[number | null]>(UPDATE_THROUGH)
  const selectNext = database.prepare<[number, number], UserRow>(SELECT_NEXT)

  const index: WordIndex = {
    add: (id, user) => {
      const prefixes = prefixesOf(user)
      if (prefixes !== '') add.run(id, prefixes)
    },
    remove: (id, user) => {
      const prefixes = prefixesOf(user)
      if (prefixes !== '') remove.run(id, prefixes)
    },
    through: () => selectThrough.get() ?? Number.POSITIVE_INFINITY,
    addNext: limit => {
      const through = index.through()
      if (through === Number.POSITIVE_INFINITY) return { isComplete: true, through }
      const users = selectNext.all(through, limit)
      for (const user of users) index.add(user.id, user)
      const isComplete = users.length < limit
      const last = users.at(-1)?.id ?? through
      updateThrough.run(isComplete ? null : last)
      return { isComplete, through: last }
    },
  }
  return index
}

/** Whether all users can be found by their words. */
export function createWordIndexCheck(database: Database): () => boolean {
  const isReady = database.prepare<[], 0 | 1>(SELECT_IS_READY).pluck()
  return () => isReady.get() === 1
}

/** Empties an index that another version of the words made, so that it is built again. */
export function clearOutdatedWords(database: Database): void {
  const selectVersion = database.prepare<[], number>(SELECT_VERSION).pluck()
  if (selectVersion.get() === WORDS_VERSION) return
  clearWords(database)
}

/** Empties the index, so that it is built again. */
export function clearWords(database: Database): void {
  database.transaction(() => database.exec(CLEAR)).immediate()
}
