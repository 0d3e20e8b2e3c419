import { COPIED_TABLES } from '../../copy/copied-tables.ts'
import {
  type CopyTarget,
  cannotHold,
  createCopyTarget,
  type TargetSession,
} from '../../copy/copy-ends.ts'
import { openExclusively } from '../connect.ts'
import { requireFile, WHOLE_CACHE_KIB } from '../inspect-database.ts'
import { openSqlite } from '../open-sqlite.ts'
import type { Database } from '../sqlite-driver.ts'
import { explainErrors, violates } from '../sqlite-errors.ts'
import { NEW_MARK } from '../sqlite-user-changes.ts'
import { clearWords, createWordIndex } from '../word-index.ts'
import { createSqliteCopySession } from './sqlite-copy-source.ts'

const DELETE_ALL = COPIED_TABLES.map(({ name }) => `DELETE FROM ${name}`).join('; ')

const DELETE_SEQUENCE = `DELETE FROM sqlite_sequence WHERE name = 'users'`

const INSERT_SEQUENCE = `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', ?)`

/** What the triggers would have done. A follower then reads all users as those from before the feed. */
const BEGIN_FEED = `
  UPDATE users_summary SET revision = revision + 1, user_count = (SELECT count(*) FROM users);
  DELETE FROM user_changes;
  UPDATE user_feed SET mark = ${NEW_MARK}, baseline_through = (SELECT coalesce(max(id), 0) FROM users), forgotten_through = 0`

/** The triggers and indexes of `users` that statements create, without that of the primary key. */
const SELECT_LEFT_OUT = `
  SELECT type, name, sql FROM sqlite_schema
  WHERE type IN ('index', 'trigger') AND tbl_name = 'users' AND sql IS NOT NULL`

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
  return createCopyTarget(createTargetSession(database))
}

function createTargetSession(database: Database): TargetSession {
  const words = createWordIndex(database)
  const leftOut = database
    .prepare<[], Record<'type' | 'name' | 'sql', string>>(SELECT_LEFT_OUT)
    .all()
  return {
    ...createSqliteCopySession(database),

    begin: mark =>
      explainErrors(() => {
        // This journal has only pages that were there before. A WAL would have all that is copied, to be written twice.
        database.pragma('journal_mode = DELETE')
        if (mark !== undefined) database.exec(mark)
        database.exec('BEGIN')
        // Users come in the order of their ids. Filling other indexes row by row takes more than three times as long, and
        // the triggers take as long as the rows.
        for (const { type, name } of leftOut) database.exec(`DROP ${type} ${name}`)
        database.exec(DELETE_ALL)
        clearWords(database)
      }),

    // Without triggers, a statement for many rows is no faster than one for each.
    insert: ({ name, columns }, rows) =>
      explainErrors(() => {
        const names = Object.keys(columns)
        const values = names.map(() => '?')
        const insert = database.prepare(`INSERT INTO ${name} (${names}) VALUES (${values})`)
        for (const row of rows) insert.run(row)
      }),

    putWords: users =>
      explainErrors(() => {
        for (const { id, ...user } of users) words.put(id, user)
      }),

    isRefusal: error => violates(error.cause ?? error),

    complete: lastId =>
      explainErrors(() => {
        database.exec(DELETE_SEQUENCE)
        database.prepare(INSERT_SEQUENCE).run(lastId)
        database.exec(BEGIN_FEED)
        try {
          for (const { sql } of leftOut) database.exec(sql)
        } catch (error) {
          if (!violates(error)) throw error
          const user = database.prepare<[], string>(SELECT_SAME_EMAIL).pluck().get()
          throw cannotHold(`${user}`, error as Error)
        }
      }),
  }
}
