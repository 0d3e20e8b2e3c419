import { sleep } from '../../platform/timers.ts'
import type { ImportKeys, UserImportStore } from '../../users/transfer/user-import-store.ts'
import type { UserRow } from '../../users/user-repository.ts'
import {
  createBatchWriter,
  createUserImportStore,
  FOUND_COLUMNS,
  findUsers as findIn,
  type ImportEngine,
} from '../create-user-import-store.ts'
import { type Program, runAtOnce } from '../programs.ts'
import { Database } from './sqlite-driver.ts'
import { guardWork } from './sqlite-errors.ts'
import { createStatementRunner, type SqliteParts } from './sqlite-statements.ts'
import { SQLITE_WORDS } from './sqlite-words.ts'

/** SQL for the greatest id that was given out; 0 if none was. A program that writes to the database may use greater ones. */
export const LAST_GIVEN_ID = `coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0)`

/** Imports in one transaction of SQLite, which has no other writer. */
const SQLITE_IMPORTS: ImportEngine = {
  selectUsers: `
    SELECT ${FOUND_COLUMNS} FROM users
    WHERE lower(email) IN (SELECT value FROM json_each($1)) OR id IN (SELECT value FROM json_each($2))`,
  lock: '',
  selectLastId: `SELECT ${LAST_GIVEN_ID}`,
  ...SQLITE_WORDS,
}

/**
 * How long a transaction may take, in milliseconds. E-mails are not sorted, so that each transaction writes most pages of
 * their index: with 2000 rows a transaction, a row takes twice as long as with 20,000.
 */
const TRANSACTION_MS = 400

/** The same while others write, who wait meanwhile. */
const SHARED_TRANSACTION_MS = 25

/** How long others are expected to write again. */
const SHARED_FOR_MS = 5000

/** Longer than a write of others waits until it asks for the lock again. */
const SHARED_PAUSE_MS = 10

const [MIN_ROWS, MAX_ROWS] = [250, 20_000]

/** A number that changes with each commit of another connection. */
const SELECT_VERSION = 'PRAGMA data_version'

/** Imports into a database of SQLite, in transactions that get along with its other writers. */
export function createSqliteUserImportStore(
  parts: Pick<SqliteParts, 'database' | 'statements' | 'now' | 'steadyNow'>,
): UserImportStore {
  const { database, statements, now, steadyNow } = parts
  const selectVersion = database.prepare<[], number>(SELECT_VERSION).pluck()
  let batchRows = MIN_ROWS
  let version = selectVersion.get()
  let sharedUntil = Number.NEGATIVE_INFINITY
  let beganAt = 0

  /** Called when it has the lock. */
  function begin(): void {
    beganAt = steadyNow()
    const latest = selectVersion.get()
    if (latest !== version) sharedUntil = beganAt + SHARED_FOR_MS
    version = latest
  }

  const store = createUserImportStore(SQLITE_IMPORTS, {
    read: statements.read,
    transaction: program =>
      statements.transaction(() => {
        begin()
        return program()
      }),
    now,
  })

  return {
    ...store,
    batchRows: () => batchRows,
    write: async batch => {
      const outcomes = await store.write(batch)
      const endedAt = steadyNow()
      const isShared = endedAt < sharedUntil
      const most = isShared ? SHARED_TRANSACTION_MS : TRANSACTION_MS
      const rows = Math.floor((outcomes.length * most) / Math.max(1, endedAt - beganAt))
      batchRows = Math.min(Math.max(rows, MIN_ROWS), MAX_ROWS)
      if (isShared) await sleep(SHARED_PAUSE_MS)
      return outcomes
    },
  }
}

/** A database of one connection, which SQLite deletes when it is closed. It is in memory while it is small, then in a file. */
const TEMPORARY = ''

/** Memory for pages: e-mails come in any order, so each batch writes to pages all over their index. */
const TRIAL_CACHE_KIB = 32_000

const CREATE_TRIAL = `
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
  trial.pragma(`cache_size = -${TRIAL_CACHE_KIB}`)
  trial.pragma('journal_mode = MEMORY')
  trial.exec(CREATE_TRIAL)
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
