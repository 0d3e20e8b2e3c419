import type {
  ImportCheckpoint,
  ImportedUser,
  ImportOutcome,
  UserImportStore,
} from '../../users/transfer/user-import-store.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { createSqliteUserImportStore } from './sqlite-user-import-store.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteDryRunImportStoreOptions {
  /** The database to import into. It is only read. */
  readonly database: Database
  /** Where the import is tried: an empty temporary database of the same schema. */
  readonly trial: { readonly database: Database; readonly writes: WriteQueue }
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

const COLUMNS = 'id, name, name_lower, email, password_digest, created_at, updated_at'

const SELECT_BY_EMAIL = `SELECT ${COLUMNS} FROM users WHERE lower(email) = lower(?)`

const SELECT_BY_ID = `SELECT ${COLUMNS} FROM users WHERE id = ?`

/** Skips a user that is already copied, because an earlier row may have changed it. */
const INSERT = `INSERT OR IGNORE INTO users (${COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)`

const SELECT_LAST_ID = `SELECT seq FROM sqlite_sequence WHERE name = 'users'`

/** The table in which SQLite keeps the last id has no constraints, and no row before the first user. */
const INSERT_LAST_ID = `INSERT INTO sqlite_sequence (name, seq) VALUES ('users', ?)`

/**
 * Tries an import: runs the real store on a temporary database, into which it first copies the users whose e-mail or
 * id a row has. No other user can affect that row.
 */
export function createSqliteDryRunImportStore(
  options: SqliteDryRunImportStoreOptions,
): UserImportStore {
  const { database, trial, now } = options
  const store = createSqliteUserImportStore({ ...trial, now, isTrial: true })
  const selectByEmail = database.prepare<[string], unknown[]>(SELECT_BY_EMAIL).raw()
  const selectById = database.prepare<[number], unknown[]>(SELECT_BY_ID).raw()
  const insert = trial.database.prepare(INSERT)
  const lastId = database.prepare<[], number>(SELECT_LAST_ID).pluck().get()
  if (lastId !== undefined) trial.database.prepare(INSERT_LAST_ID).run(lastId)

  const copyInTransaction = trial.database.transaction(
    (rows: readonly Pick<ImportedUser, 'id' | 'email'>[]) => {
      for (const { email, id } of rows) {
        const byEmail = selectByEmail.get(email)
        const byId = id === undefined ? undefined : selectById.get(id)
        for (const user of [byEmail, byId]) if (user !== undefined) insert.run(user)
      }
    },
  )

  function copyUsersOf(rows: readonly Pick<ImportedUser, 'id' | 'email'>[]): void {
    try {
      copyInTransaction(rows)
    } catch (error) {
      throw translateSqliteError(error)
    }
  }

  return {
    findCheckpoint: async () => undefined,

    findDigestsByEmail: async emails => {
      copyUsersOf(emails.map(email => ({ email })))
      return store.findDigestsByEmail(emails)
    },

    write: async ({ users, onConflict, checkpointAfter }) => {
      copyUsersOf(users)
      const outcomes: ImportOutcome[] = []
      // Under `fail` the store stops at each conflict.
      while (outcomes.length < users.length) {
        const rest = users.slice(outcomes.length)
        const batch = { users: rest, onConflict, checkpointAfter: () => UNUSED_CHECKPOINT }
        outcomes.push(...(await store.write(batch)))
      }
      checkpointAfter(outcomes)
      return outcomes
    },
  }
}

/** The store must write a checkpoint, but the temporary database is deleted. */
const UNUSED_CHECKPOINT: ImportCheckpoint = {
  source: '',
  records: 0,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: { created: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 },
  isFinished: false,
}
