import { firstChars, type NamedUser, WORDS_VERSION, wordsOfUser } from '../../users/words.ts'
import { INDEXED_THROUGH, IS_OUTDATED_AND_EMPTY, type WordDialect } from '../index-next-users.ts'
import { ask } from '../programs.ts'
import type { OpenStorageOptions } from '../storage.ts'
import type { Database } from './sqlite-driver.ts'
import { isUnavailable } from './sqlite-errors.ts'

const PUT = `INSERT OR REPLACE INTO users_words (rowid, prefixes) VALUES (?, ?)`

const REMOVE = `DELETE FROM users_words WHERE rowid = ?`

const SELECT_USER = `SELECT name, email FROM users WHERE id = ?`

/** Whether a service with newer rules keeps the index, who alone writes words. */
const IS_NEWER = `SELECT words_version > ${WORDS_VERSION} FROM users_words_state WHERE singleton = 1`

const NOTE_WITHOUT_WORDS = `INSERT OR IGNORE INTO users_without_words (id) VALUES (?)`

/** Has the index emptied and built again. */
const FORGET_WORDS = `
  UPDATE users_words_state SET words_version = 0, indexed_through = 0 WHERE singleton = 1`

/** The revision changes, because lists with words may become others. */
const CLEAR = [
  `INSERT INTO users_words (users_words) VALUES ('delete-all')`,
  `UPDATE users_words_state
   SET words_version = ${WORDS_VERSION}, indexed_through = CASE WHEN EXISTS (SELECT 1 FROM users) THEN 0 END`,
  `UPDATE users_summary SET revision = revision + 1`,
]

const PUT_SET = `
  INSERT OR REPLACE INTO users_words (rowid, prefixes)
  SELECT value ->> 0, value ->> 1 FROM json_each($1)`

/** The words of all users, `usersAStep` in a transaction: a hundred take about a millisecond. */
export function wordDialect(usersAStep: number): WordDialect {
  return {
    usersAStep,
    idsOfSet: 'SELECT value FROM json_each($1)',
    beginAnew: CLEAR,
    *put(users) {
      const set = users.map(user => [user.id, prefixesOf(user)])
      yield* ask(PUT_SET, [JSON.stringify(set)])
    },
    deleteSet: 'DELETE FROM users_words WHERE rowid IN (SELECT value FROM json_each($1))',
  }
}

/** The table `users_words`, which finds users by their words. Call it within a transaction. */
export function createWordIndex(database: Database) {
  const replace = database.prepare<[number, string]>(PUT)
  const remove = database.prepare<[number]>(REMOVE)
  const selectUser = database.prepare<[number], NamedUser>(SELECT_USER)
  const selectThrough = database.prepare<[], number>(INDEXED_THROUGH).pluck()
  const isNewer = database.prepare<[], 0 | 1>(IS_NEWER).pluck()
  const note = database.prepare<[number]>(NOTE_WITHOUT_WORDS)

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
     * Updates the index to these users as they are now. Skips those that it does not have yet, and leaves all to a
     * service with newer rules if there is one. A user without a value is looked up by its id.
     */
    renew: (users: ReadonlyMap<number, NamedUser | undefined>): void => {
      const ids = [...users.keys()].sort((one, other) => one - other)
      const through = selectThrough.get() ?? 0
      const isLeft = isNewer.get() === 1
      for (const id of ids) {
        if (id > through) continue
        if (isLeft) note.run(id)
        else renewOne(id, users.get(id))
      }
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

/** Empties the index, so that it is built again. */
export function clearWords(database: Database): void {
  database.transaction(() => database.exec(CLEAR.join('; '))).immediate()
}

/** Makes the index of a database without users one of this release. */
export function beginWords(database: Database): void {
  const begin = database.transaction(() => {
    const sql = `SELECT ${IS_OUTDATED_AND_EMPTY} FROM users_words_state`
    if (database.prepare(sql).pluck().get() === 1) clearWords(database)
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
