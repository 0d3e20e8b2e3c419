import { firstChars, type NamedUser, WORDS_VERSION, wordsOfUser } from '../../users/words.ts'
import type { IndexingProgress, OpenStorageOptions } from '../storage.ts'
import type { IndexedWords } from '../word-filler.ts'
import type { Database } from './sqlite-driver.ts'
import { guardWork, isUnavailable } from './sqlite-errors.ts'

/** A user of the index. */
export interface IndexedUser extends NamedUser {
  readonly id: number
}

const PUT = `INSERT OR REPLACE INTO users_words (rowid, prefixes) VALUES (?, ?)`

const REMOVE = `DELETE FROM users_words WHERE rowid = ?`

const SELECT_USER = `SELECT name, email FROM users WHERE id = ?`

const SELECT_NEXT = `SELECT id, name, email FROM users WHERE id > ? ORDER BY id LIMIT ?`

const SELECT_LAST_ID = `SELECT max(id) FROM users`

/** All users up to this id are in the index; null for all. A service of an older release makes do with a newer index. */
const SELECT_THROUGH = `
  SELECT CASE WHEN words_version >= ${WORDS_VERSION} THEN indexed_through ELSE 0 END
  FROM users_words_state WHERE singleton = 1`

const UPDATE_THROUGH = `UPDATE users_words_state SET indexed_through = ? WHERE singleton = 1`

const IS_OUTDATED = `SELECT words_version < ${WORDS_VERSION} FROM users_words_state WHERE singleton = 1`

/** Whether a service with newer rules keeps the index, who alone writes words. */
const IS_NEWER = `SELECT words_version > ${WORDS_VERSION} FROM users_words_state WHERE singleton = 1`

const NOTE_WITHOUT_WORDS = `INSERT OR IGNORE INTO users_without_words (id) VALUES (?)`

const DELETE_NOTED = `DELETE FROM users_without_words WHERE id = ?`

const SELECT_NOTED = `SELECT id FROM users_without_words ORDER BY id LIMIT ?`

/** SQL for whether all users can be found by their words. */
export const ARE_WORDS_INDEXED = `
  SELECT indexed_through IS NULL AND words_version >= ${WORDS_VERSION}
    AND NOT EXISTS (SELECT 1 FROM users_without_words)
  FROM users_words_state WHERE singleton = 1`

/** Has the index emptied and built again. */
const FORGET_WORDS = `
  UPDATE users_words_state SET words_version = 0, indexed_through = 0 WHERE singleton = 1`

/** The revision changes, because lists with words may become others. */
const CLEAR = `
  INSERT INTO users_words (users_words) VALUES ('delete-all');
  UPDATE users_words_state
  SET words_version = ${WORDS_VERSION}, indexed_through = CASE WHEN EXISTS (SELECT 1 FROM users) THEN 0 END;
  UPDATE users_summary SET revision = revision + 1`

/** The table `users_words`, which finds users by their words. Call it within a transaction. */
export function createWordIndex(database: Database) {
  const replace = database.prepare<[number, string]>(PUT)
  const remove = database.prepare<[number]>(REMOVE)
  const selectUser = database.prepare<[number], NamedUser>(SELECT_USER)
  const selectNext = database.prepare<[number, number], IndexedUser>(SELECT_NEXT)
  const selectLastId = database.prepare<[], number | null>(SELECT_LAST_ID).pluck()
  const selectThrough = database.prepare<[], number | null>(SELECT_THROUGH).pluck()
  const updateThrough = database.prepare<[number | null]>(UPDATE_THROUGH)
  const isOutdated = database.prepare<[], 0 | 1>(IS_OUTDATED).pluck()
  const isNewer = database.prepare<[], 0 | 1>(IS_NEWER).pluck()
  const note = database.prepare<[number]>(NOTE_WITHOUT_WORDS)
  const deleteNoted = database.prepare<[number]>(DELETE_NOTED)
  const selectNoted = database.prepare<[number], number>(SELECT_NOTED).pluck()

  /** Adds a user, or replaces its words. */
  function put(id: number, user: NamedUser): void {
    replace.run(id, prefixesOf(user))
  }

  /** Makes it hold a user as it is now. */
  function renewOne(id: number, user = selectUser.get(id)): void {
    if (user === undefined) remove.run(id)
    else put(id, user)
  }

  return {
    put,

    /**
     * Makes it hold these users as they are now, unless they are still to be added, or to be added by newer rules. One of which
     * only the id is given is looked up.
     */
    renew: (users: ReadonlyMap<number, NamedUser | undefined>): void => {
      const ids = [...users.keys()].sort((one, other) => one - other)
      const through = selectThrough.get() ?? Number.POSITIVE_INFINITY
      const isLeft = isNewer.get() === 1
      for (const id of ids) {
        if (id > through) continue
        if (isLeft) note.run(id)
        else renewOne(id, users.get(id))
      }
    },

    /** Adds up to `limit` of the users that it lacks, in the order of their ids. Empties what an older release has made. */
    addNext: (limit: number): IndexingProgress => {
      if (isOutdated.get() === 1) database.exec(CLEAR)
      const through = selectThrough.get() ?? null
      const lastId = selectLastId.get() ?? 0
      if (isNewer.get() === 1) return { isComplete: true, through: lastId, lastId }
      if (through === null) {
        const noted = selectNoted.all(limit)
        for (const id of noted) {
          renewOne(id)
          deleteNoted.run(id)
        }
        return { isComplete: noted.length < limit, through: noted.at(-1) ?? lastId, lastId }
      }
      const users = selectNext.all(through, limit)
      for (const user of users) put(user.id, user)
      const isComplete = users.length < limit
      const last = users.at(-1)?.id ?? through
      updateThrough.run(isComplete ? null : last)
      return { isComplete, through: last, lastId }
    },
  }
}

const DAMAGED = 'index of words is damaged, and is built again'

/**
 * What the writes of one transaction change in the index of words. It is written once, right before the commit: FTS5 writes
 * a tree of its own to the disk at each savepoint, and needs users in the order of their ids to fill one tree.
 */
export function createWordChanges(database: Database, onWarning: OpenStorageOptions['onWarning']) {
  const noted = new Map<number, NamedUser | undefined>()
  const savepoint = database.prepare('SAVEPOINT words')
  // FTS5 writes at a savepoint what it has kept until then.
  const flush = database.prepare('SAVEPOINT written_words')
  const rollback = database.prepare('ROLLBACK TO words')
  const release = database.prepare('RELEASE words')
  let index: ReturnType<typeof createWordIndex> | undefined

  return {
    /** Notes that a user may be new, gone, or have other words, and the user as it now is, if it is known. */
    note: (id: number, user?: NamedUser): void => void noted.set(id, user),
    /** Notes that users may not be as they were given, because a write was undone. */
    doubt: (): void => {
      for (const id of noted.keys()) noted.set(id, undefined)
    },
    /** Forgets what is noted. */
    undo: (): void => noted.clear(),
    /** Writes what is noted. An index that cannot be written is to be built again, and the other writes stay. */
    apply: (): void => {
      if (noted.size === 0) return
      savepoint.run()
      try {
        index ??= createWordIndex(database)
        index.renew(noted)
        flush.run()
      } catch (error) {
        if (isUnavailable(error) || !database.inTransaction) throw error
        rollback.run()
        database.exec(FORGET_WORDS)
        onWarning?.(DAMAGED, error)
      }
      release.run()
      noted.clear()
    },
  }
}

/**
 * The words of all users, which a service or `migrate` completes. `run` runs work in a transaction. Each step adds `usersAStep`
 * users; a hundred take about a millisecond.
 */
export function createIndexedWords(
  database: Database,
  { run, usersAStep }: { run<T>(work: () => T): Promise<T>; readonly usersAStep: number },
): IndexedWords {
  const areIndexed = database.prepare<[], 0 | 1>(ARE_WORDS_INDEXED).pluck()
  const isNewer = database.prepare<[], 0 | 1>(IS_NEWER).pluck()
  return {
    areComplete: () => guardWork(database, () => areIndexed.get() === 1 || isNewer.get() === 1),
    // A damaged index fails here, and not when the database is opened.
    addNext: () => run(() => createWordIndex(database).addNext(usersAStep)),
  }
}

/** Empties the index, so that it is built again. */
export function clearWords(database: Database): void {
  database.transaction(() => database.exec(CLEAR)).immediate()
}

/** Makes the index of a database without users one of this release. */
export function beginWords(database: Database): void {
  const isOutdatedAndEmpty = database
    .prepare<[], 0 | 1>(`${IS_OUTDATED} AND NOT EXISTS (SELECT 1 FROM users)`)
    .pluck()
  const begin = database.transaction(() => {
    if (isOutdatedAndEmpty.get() === 1) database.exec(CLEAR)
  })
  begin.immediate()
}

/** Each beginning of a word up to this many code points is a term of the index. FTS5 reads the users of a term one by one. */
const MAX_TERM_CHARS = 4

/** The text that the index holds for a user: its words and their short beginnings, each once, with blanks between them. */
export function prefixesOf(user: NamedUser): string {
  const words = wordsOfUser(user)
  let text = ''
  for (const [index, word] of words.entries()) {
    let isNew = index === 0
    let prefix = ''
    for (let chars = 1; chars <= MAX_TERM_CHARS && prefix !== word; chars++) {
      prefix = firstChars(word, chars)
      isNew ||= !words.some((other, at) => at < index && other.startsWith(prefix))
      if (isNew) text += ` ${prefix}`
    }
    if (prefix !== word) text += ` ${word}`
  }
  return text.slice(1)
}

/**
 * The expression of FTS5 for users whose words begin with all of `asked`. A longer beginning is no term: FTS5 then collects
 * the users of all words that begin with it.
 */
export function matchOf(asked: readonly string[]): string {
  const isTerm = (word: string) => firstChars(word, MAX_TERM_CHARS) === word
  // Words have only letters, marks and digits, so nothing in them means anything to FTS5.
  return asked.map(word => `"${word}"${isTerm(word) ? '' : '*'}`).join(' AND ')
}
