import type { ImportKeys, UserImportStore } from '../../users/transfer/user-import-store.ts'
import type { UserRow } from '../../users/user-repository.ts'
import { createBatchWriter, findUsers as findIn } from '../create-user-import-store.ts'
import { type Program, runAtOnce } from '../programs.ts'
import { Database } from './sqlite-driver.ts'
import { guardWork } from './sqlite-errors.ts'
import { createStatementRunner } from './sqlite-statements.ts'
import { SQLITE_IMPORTS } from './sqlite-user-import-store.ts'

/** A database of one connection, which SQLite deletes when it is closed. It is in memory while it is small, then in a file. */
const TEMPORARY = ''

/** Memory for pages: e-mails come in any order, so each batch writes to pages all over their index. */
const CACHE_KIB = 32_000

const CREATE = `
  CREATE TABLE users (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, name_lower TEXT, email TEXT, words TEXT, password_digest TEXT,
    created_at TEXT, updated_at TEXT);
  CREATE UNIQUE INDEX users_email_unique ON users (lower(email))`

const INSERT_LAST_ID = `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', ?)`

/** A user that an earlier row has met stays as it is now, whatever its e-mail was. */
const INSERT_MET = `
  INSERT INTO users (id, name, email, password_digest, created_at, updated_at)
  VALUES (@id, @name, @email, @passwordDigest, @createdAt, @updatedAt) ON CONFLICT DO NOTHING`

/**
 * Tries imports into any database, which is only read: decides as its own store would, and keeps the users that rows have
 * created, changed or met in a temporary database.
 */
export async function openTrialImports(
  { findUsers, lastId, batchRows }: Omit<UserImportStore, 'findCheckpoint' | 'write'>,
  now: () => number,
) {
  const greatestId = await lastId()
  const trial = new Database(TEMPORARY)
  trial.pragma(`cache_size = -${CACHE_KIB}`)
  trial.pragma('journal_mode = MEMORY')
  trial.exec(CREATE)
  trial.prepare<[number]>(INSERT_LAST_ID).run(greatestId)
  const insertMet = trial.prepare<[UserRow]>(INSERT_MET)
  const run = createStatementRunner(trial)
  const writeBatch = createBatchWriter(SQLITE_IMPORTS, { now, endsAtConflict: false })

  /** Runs a program that sees the users with these e-mails or ids as they would be now. No other user can affect the rows. */
  async function meet<T>(rows: readonly ImportKeys[], program: () => Program<T>): Promise<T> {
    const found = await findUsers(rows)
    const work = trial.transaction(() => {
      for (const user of found) insertMet.run(user)
      return runAtOnce(program(), run)
    })
    return guardWork(trial, work)
  }

  const store: UserImportStore = {
    findCheckpoint: async () => undefined,
    findUsers: rows => meet(rows, () => findIn(SQLITE_IMPORTS.selectUsers, rows)),
    lastId,
    batchRows,
    write: async batch => {
      const outcomes = await meet(batch.users, () => writeBatch(batch))
      batch.checkpointAfter(outcomes)
      return outcomes
    },
  }
  return { store, close: () => void trial.close() }
}
