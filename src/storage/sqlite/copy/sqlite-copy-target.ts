import {
  COPIED_TABLES,
  type CopiedTable,
  HAS_ROWS,
  namedUserOf,
  USERS,
} from '../../copy/copied-tables.ts'
import { type CopyTarget, NOT_EMPTY } from '../../copy/copy-ends.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { openExclusively } from '../connect.ts'
import { isUnfinishedCopy, requireFile, WHOLE_CACHE_KIB } from '../inspect-database.ts'
import { openSqlite } from '../open-sqlite.ts'
import type { Database } from '../sqlite-driver.ts'
import { explainErrors, violates } from '../sqlite-errors.ts'
import { NEW_MARK } from '../sqlite-user-changes.ts'
import { clearWords, createWordIndex } from '../word-index.ts'
import { createSqliteCopyEnd } from './sqlite-copy-source.ts'

const SELECT_IS_USED = `
  SELECT ${HAS_ROWS} OR EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'users' AND seq > 0)`

const INSERT_MARK = `INSERT INTO unfinished_copies (singleton) VALUES (1)`

const DELETE_MARK = `DELETE FROM unfinished_copies`

/** Takes about a second for a million users. Keys come first, because a trigger looks for those of each deleted user. */
const DELETE_ALL = COPIED_TABLES.map(({ name }) => `DELETE FROM ${name}`)
  .reverse()
  .join('; ')

const DELETE_SEQUENCE = `DELETE FROM sqlite_sequence WHERE name = 'users'`

const INSERT_SEQUENCE = `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', ?)`

/** A follower then reads all users as those from before the feed. */
const BEGIN_FEED = `
  DELETE FROM user_changes;
  UPDATE user_feed SET mark = ${NEW_MARK}, baseline_through = (SELECT coalesce(max(id), 0) FROM users), forgotten_through = 0`

/** The indexes of `users` that statements create, without that of the primary key. */
const SELECT_INDEXES = `
  SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'users' AND sql IS NOT NULL`

/** A user with the e-mail of another one, which the unique index refuses. */
const SELECT_SAME_EMAIL = `
  SELECT 'user ' || max(id) FROM users GROUP BY lower(email) HAVING count(*) > 1 LIMIT 1`

/**
 * Opens a database that no other process has open, and creates it if it is missing. Throws `UnusableDatabase`; a database
 * that it refuses stays as it was.
 */
export async function openSqliteCopyTarget(path: string): Promise<CopyTarget> {
  requireFile(path)
  const created = await openSqlite({ path, now: Date.now, isCopyTarget: true })
  created.close()
  const database = await explainErrors(() => openExclusively(path))
  database.pragma(`cache_size = -${WHOLE_CACHE_KIB}`)
  return createTarget(database)
}

function createTarget(database: Database): CopyTarget {
  const words = createWordIndex(database)
  const indexes = database.prepare<[], { name: string; sql: string }>(SELECT_INDEXES).all()
  return {
    ...createSqliteCopyEnd(database),

    begin: () =>
      explainErrors(() => {
        const isUnfinished = isUnfinishedCopy(database)
        if (!isUnfinished && database.prepare(SELECT_IS_USED).pluck().get() === 1) {
          throw new UnusableDatabase(NOT_EMPTY)
        }
        // This journal has only pages that were there before. A WAL would have all that is copied, to be written twice.
        database.pragma('journal_mode = DELETE')
        if (!isUnfinished) database.exec(INSERT_MARK)
        database.exec('BEGIN')
        // Users come in the order of their ids. Filling other indexes row by row takes more than three times as long.
        for (const { name } of indexes) database.exec(`DROP INDEX ${name}`)
        database.exec(`${DELETE_ALL}; ${DELETE_SEQUENCE}`)
        clearWords(database)
      }),

    add: (table, rows) =>
      explainErrors(() => {
        const insert = database.prepare(insertOf(table))
        for (const row of rows) {
          nameRefused(
            () => table.nameRow(row),
            () => insert.run(row),
          )
        }
        if (table !== USERS) return
        for (const { id, ...user } of rows.map(namedUserOf)) words.put(id, user)
      }),

    complete: lastId =>
      explainErrors(() => {
        database.exec(DELETE_SEQUENCE)
        database.prepare(INSERT_SEQUENCE).run(lastId)
        database.exec(BEGIN_FEED)
        nameRefused(
          () => database.prepare(SELECT_SAME_EMAIL).pluck().get(),
          () => database.exec(indexes.map(({ sql }) => sql).join('; ')),
        )
      }),

    commit: () =>
      explainErrors(() => {
        database.exec(`${DELETE_MARK}; COMMIT`)
      }),
  }
}

/** Runs `write`, and says of which row a constraint refuses something. */
function nameRefused(rowOf: () => unknown, write: () => void): void {
  try {
    write()
  } catch (error) {
    if (!violates(error)) throw error
    const how = `it cannot hold ${rowOf()}: ${(error as Error).message}`
    throw new UnusableDatabase(how, { cause: error })
  }
}

function insertOf({ name, columns }: CopiedTable): string {
  const names = Object.keys(columns)
  return `INSERT INTO ${name} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`
}
