import { createIdCounter, createImportDecisions } from '../../users/transfer/import-decisions.ts'
import type {
  ImportKeys,
  ImportOutcome,
  UserImportStore,
} from '../../users/transfer/user-import-store.ts'
import type { UserRow } from '../../users/user-repository.ts'
import { Database } from './sqlite-driver.ts'
import { guardWork } from './sqlite-errors.ts'
import { createUserFinder } from './sqlite-user-rows.ts'

/** A database of one connection, which SQLite deletes when it is closed. It is in memory while it is small, then in a file. */
const TEMPORARY = ''

/** Memory for pages: e-mails come in any order, so each batch writes to pages all over their index. */
const CACHE_KIB = 32_000

const CREATE = `
  CREATE TABLE users (
    id INTEGER PRIMARY KEY, name TEXT, email TEXT, password_digest TEXT, created_at TEXT, updated_at TEXT);
  CREATE UNIQUE INDEX users_email_unique ON users (lower(email))`

const INSERT = `
  INSERT INTO users (id, name, email, password_digest, created_at, updated_at)
  VALUES (@id, @name, @email, @passwordDigest, @createdAt, @updatedAt)`

/** A user that an earlier row has met stays as it is now, whatever its e-mail was. */
const INSERT_MET = `${INSERT} ON CONFLICT DO NOTHING`

const UPSERT = `${INSERT}
  ON CONFLICT (id) DO UPDATE SET name = excluded.name, email = excluded.email,
    password_digest = excluded.password_digest, updated_at = excluded.updated_at`

/**
 * Tries imports into any database, which is only read: decides as its own store would, and keeps the users that rows have
 * created, changed or met in a temporary database.
 */
export async function openTrialImports(
  { findUsers, lastId }: Pick<UserImportStore, 'findUsers' | 'lastId'>,
  now: () => number,
) {
  const takeId = createIdCounter(await lastId())
  const trial = new Database(TEMPORARY)
  trial.pragma(`cache_size = -${CACHE_KIB}`)
  trial.pragma('journal_mode = MEMORY')
  trial.exec(CREATE)
  const insertMet = trial.prepare<[UserRow]>(INSERT_MET)
  const upsert = trial.prepare<[UserRow]>(UPSERT)
  const usersOf = createUserFinder(trial)

  const inTransaction = <T>(work: () => T) => guardWork(trial, trial.transaction(work))

  /** The users with these e-mails or ids as they would be now. No other user can affect the rows. */
  async function meet(rows: readonly ImportKeys[]): Promise<UserRow[]> {
    const found = await findUsers(rows)
    return inTransaction(() => {
      for (const user of found) insertMet.run(user)
      return usersOf(rows)
    })
  }

  const store: UserImportStore = {
    findCheckpoint: async () => undefined,
    findUsers: meet,
    lastId,
    write: async ({ users, onConflict, checkpointAfter }) => {
      const decide = createImportDecisions({ existing: await meet(users), onConflict, now })
      const outcomes = await inTransaction(() =>
        users.map((user): ImportOutcome => {
          const { outcome, after } = decide(user, () => takeId(user.id))
          if (after !== undefined) upsert.run(after)
          return outcome
        }),
      )
      checkpointAfter(outcomes)
      return outcomes
    },
  }
  return { store, close: () => void trial.close() }
}
