import { firstChars, type NamedUser, WORDS_VERSION, wordsOfUser } from '../../users/words.ts'
import type { Database } from './sqlite-driver.ts'

/**
 * What the writes of one transaction change in the index of words. It is written once, right before the commit: FTS5 writes
 * a tree of its own to the disk at each savepoint, and needs users in the order of their ids to fill one tree.
 */
export interface WordChanges {
  /** Notes that a user was or is no longer there, or has other words. */
  note(id: number, change: WordChange): void
  /** Adds up to `limit` users to an index that is being built. `onAdded` gets the progress right before the commit. */
  addNext(limit: number, onAdded: (progress: WordIndexProgress) => void): void
  /** The place in what is noted now. */
  mark(): number
  /** Forgets what was noted after a place. */
  undoTo(mark: number): void
  /** Writes to the index what is noted. */
  apply(): void
}

export interface WordChange {
  /** Undefined for a new user. */
  readonly before?: NamedUser
  /** Undefined for a deleted user. */
  readonly after?: NamedUser
}

type Noted = { readonly id: number; readonly change: WordChange } | { readonly addNext: () => void }

export function createWordChanges(database: Database): WordChanges {
  let index: WordIndex | undefined
  let noted: Noted[] = []

  function openIndex(): WordIndex {
    index ??= createWordIndex(database)
    return index
  }

  function apply(): void {
    if (noted.length === 0) return
    const all = noted
    noted = []
    const words = openIndex()
    const through = words.through()
    for (const [id, { before, after }] of wholeChanges(all)) {
      // The others are added when their turn comes, as they are then.
      if (id > through || hasSameText(before, after)) continue
      if (before !== undefined) words.remove(id, before)
      if (after !== undefined) words.add(id, after)
    }
    for (const each of all) if ('addNext' in each) each.addNext()
  }

  return {
    note: (id, change) => noted.push({ id, change }),
    addNext: (limit, onAdded) => noted.push({ addNext: () => onAdded(openIndex().addNext(limit)) }),
    mark: () => noted.length,
    undoTo: mark => {
      noted.length = mark
    },
    apply,
  }
}

/** The first state and the last one of each user, in the order of the ids. */
function wholeChanges(noted: readonly Noted[]): (readonly [number, WordChange])[] {
  const changes = new Map<number, WordChange>()
  for (const each of noted) {
    if ('addNext' in each) continue
    const { before } = changes.get(each.id) ?? each.change
    const { after } = each.change
    changes.set(each.id, { ...(before && { before }), ...(after && { after }) })
  }
  return [...changes].sort(([id], [other]) => id - other)
}

function hasSameText(before: NamedUser | undefined, after: NamedUser | undefined): boolean {
  return before?.name === after?.name && before?.email === after?.email
}

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

/**
 * How long the beginnings of words are that the index holds, in code points. A beginning of another length is looked up by
 * the next shorter one, and the users are then read to see which of them have the rest.
 */
const PREFIX_CHARS = [1, 2, 3, 4, 6, 8, 12, 16] as const

/** Half of a character beyond U+FFFF. */
const SURROGATE = /[\ud800-\udfff]/

/** The text that the index holds for a user: the beginnings of its words, with blanks between them. */
export function prefixesOf(user: NamedUser): string {
  const prefixes = new Set<string>()
  for (const word of wordsOfUser(user)) {
    const isOfUnits = !SURROGATE.test(word)
    const chars = isOfUnits ? word.length : countChars(word)
    for (const length of PREFIX_CHARS) {
      if (length > chars) break
      // Slicing takes a third of the time, and nearly all words can be sliced.
      prefixes.add(isOfUnits ? word.slice(0, length) : firstChars(word, length))
    }
  }
  return [...prefixes].join(' ')
}

/** What to look up in the index for words that begin with all of `asked`. */
export interface PrefixLookup {
  /** An expression of FTS5. */
  readonly match: string
  readonly prefixes: number
  /** Whether it finds only users that match. */
  readonly isExact: boolean
}

export function lookupOf(asked: readonly string[]): PrefixLookup {
  const prefixes = new Set(asked.map(longestPrefix))
  return {
    // Words have only letters, marks and digits, so nothing in them means anything to FTS5.
    match: [...prefixes].map(prefix => `"${prefix}"`).join(' AND '),
    prefixes: prefixes.size,
    isExact: asked.every(word => longestPrefix(word) === word),
  }
}

function longestPrefix(word: string): string {
  const chars = countChars(word)
  return firstChars(word, PREFIX_CHARS.findLast(length => length <= chars) ?? 1)
}

function countChars(text: string): number {
  let chars = 0
  for (const _ of text) chars++
  return chars
}
