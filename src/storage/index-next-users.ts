import { type NamedUser, WORDS_VERSION } from '../users/words.ts'
import { ask, type Program } from './programs.ts'
import type { IndexingProgress, SharedStatements } from './storage.ts'
import { GREATEST_ID } from './user-ids.ts'

/** A user of the index. */
export interface IndexedUser extends NamedUser {
  readonly id: number
}

/** How an engine keeps the words of users. Statements are SQL. */
export interface WordDialect {
  /** How many users are indexed in a transaction. */
  readonly usersAStep: number
  /** Selects whether this process alone indexes until its transaction ends. Left out if writes take turns anyway. */
  readonly tryLock?: string
  /** The ids of the set `$1`, a JSON array. */
  readonly idsOfSet: string
  /** Makes an index of the rules of this release, to which all users are to be added. */
  readonly beginAnew: readonly string[]
  /** Writes the words of users. */
  put(users: readonly IndexedUser[]): Program<void>
  /** Deletes words with ids after `$1`, up to `$2`, that no user has; left out if there are none. */
  readonly deleteOrphans?: string
  /** Deletes the words of the set `$1`; left out if they are deleted with their users. */
  readonly deleteSet?: string
}

const MAX_ID = Number.MAX_SAFE_INTEGER

/** SQL for the id up to which all users have words, but for those in `users_without_words`. */
export const INDEXED_THROUGH = `
  SELECT CASE WHEN words_version >= ${WORDS_VERSION} THEN coalesce(indexed_through, ${MAX_ID}) ELSE 0 END
  FROM users_words_state`

/** SQL for whether all words are indexed. Reads the least id by the index, because the table may have many deleted rows. */
export const ARE_WORDS_INDEXED = `
  SELECT indexed_through IS NULL AND words_version >= ${WORDS_VERSION}
    AND (SELECT id FROM users_without_words ORDER BY id LIMIT 1) IS NULL
  FROM users_words_state`

/** The same, or whether one with newer rules keeps the index. */
const SELECT_ARE_COMPLETE = `
  SELECT words_version > ${WORDS_VERSION} OR (${ARE_WORDS_INDEXED}) FROM users_words_state`

/** SQL for whether an index without users has other rules, so that it can have those of this release at once. */
export const IS_OUTDATED_AND_EMPTY = `words_version < ${WORDS_VERSION} AND NOT EXISTS (SELECT 1 FROM users)`

export type IndexedWords = ReturnType<typeof createIndexedWords>

/** The words of all users, which a service or `migrate` completes. */
export function createIndexedWords(
  { read, transaction }: Pick<SharedStatements, 'read' | 'transaction'>,
  dialect: WordDialect,
) {
  return {
    /**
     * Whether all users can be found by their words, apart from those whose words a service with newer rules will
     * add.
     */
    areComplete: async () => Boolean((await read(SELECT_ARE_COMPLETE))[0]?.[0]),
    /** Indexes the next users that lack words, in one transaction. Undefined while another process does it. */
    addNext: () => transaction(() => indexNextUsers(dialect), { isLong: true, writes: 0 }),
  }
}

/**
 * Indexes the next users that have no words, or wrong ones, unless one with newer rules has to. Returns `undefined` while another
 * process does it.
 */
function* indexNextUsers(dialect: WordDialect): Program<IndexingProgress | undefined> {
  const { tryLock = '', beginAnew } = dialect
  if (tryLock && !(yield* ask<[boolean]>(tryLock))[0]?.[0]) return undefined
  type StateRow = readonly [version: number, through: number | null, lastId: number]
  // Locked: whoever asks for all users to be indexed again waits for this step, which would otherwise overwrite the
  // request.
  const [state] = yield* ask<StateRow>(
    `SELECT words_version, indexed_through, ${GREATEST_ID} FROM users_words_state${tryLock && ' FOR UPDATE'}`,
  )
  const [version, indexedThrough, lastId] = state as StateRow
  if (version > WORDS_VERSION) return { isComplete: true, through: lastId, lastId }
  // A service of an older release goes on with its own version, so a newer one stays.
  const isOutdated = version < WORDS_VERSION
  if (isOutdated) for (const sql of beginAnew) yield* ask(sql)
  const after = isOutdated ? 0 : indexedThrough
  const through = after === null ? undefined : yield* indexAfter(dialect, after)
  // Others may have been noted meanwhile.
  const last = through ?? (yield* indexNoted(dialect))
  return { isComplete: last === undefined, through: last ?? lastId, lastId }
}

/** Indexes the next users after an id. Returns the id of the last one; `undefined` if no more follow. */
function* indexAfter(dialect: WordDialect, after: number): Program<number | undefined> {
  const { usersAStep, deleteOrphans } = dialect
  const users = yield* selectUsers(dialect, `id > $1 ORDER BY id LIMIT ${usersAStep}`, after)
  yield* dialect.put(users)
  const last = users[usersAStep - 1]?.id
  if (deleteOrphans !== undefined) yield* ask(deleteOrphans, [after, last ?? MAX_ID])
  yield* ask('UPDATE users_words_state SET indexed_through = $1', [last ?? null])
  return last
}

/** Indexes users that were noted, in the same way. */
function* indexNoted(dialect: WordDialect): Program<number | undefined> {
  const { usersAStep, idsOfSet, deleteSet } = dialect
  const noted = yield* ask<[number]>(
    `SELECT id FROM users_without_words ORDER BY id LIMIT ${usersAStep}`,
  )
  if (noted.length === 0) return undefined
  const set = JSON.stringify(noted.flat())
  const users = yield* selectUsers(dialect, `id IN (${idsOfSet}) ORDER BY id`, set)
  if (deleteSet !== undefined && users.length < noted.length) yield* ask(deleteSet, [set])
  yield* dialect.put(users)
  // After the users are locked, nobody notes them again before the commit.
  yield* ask(`DELETE FROM users_without_words WHERE id IN (${idsOfSet})`, [set])
  return noted[usersAStep - 1]?.[0]
}

/** Their names and e-mails stay as they are until their words are there. */
function* selectUsers(
  { tryLock = '' }: WordDialect,
  which: string,
  value: unknown,
): Program<readonly IndexedUser[]> {
  const rows = yield* ask<[id: number, name: string, email: string]>(
    `SELECT id, name, email FROM users WHERE ${which}${tryLock && ' FOR SHARE'}`,
    [value],
  )
  return rows.map(([id, name, email]) => ({ id, name, email }))
}
