import { sleep } from '../../platform/timers.ts'
import type { UserImportStore } from '../../users/transfer/user-import-store.ts'
import {
  createUserImportStore,
  FOUND_COLUMNS,
  type ImportEngine,
} from '../create-user-import-store.ts'
import type { SqliteParts } from './sqlite-statements.ts'
import { SQLITE_WORDS } from './sqlite-words.ts'

/** SQL for the greatest id that was given out; 0 if none was. A program that writes to the database may use greater ones. */
export const LAST_GIVEN_ID = `coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'users'), 0)`

/** Imports in one transaction of SQLite, which has no other writer. */
export const SQLITE_IMPORTS: ImportEngine = {
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
