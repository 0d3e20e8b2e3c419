import { createIdCounter, createImportDecisions } from '../../users/transfer/import-decisions.ts'
import type { ImportOutcome, UserImportStore } from '../../users/transfer/user-import-store.ts'
import type { UserRow } from '../../users/user-repository.ts'
import { foldCase } from '../../users/user-schemas.ts'
import {
  type CheckpointRow,
  checkpointOf,
  checkpointValues,
  SELECT_CHECKPOINT,
  UPSERT_CHECKPOINT,
} from '../import-checkpoints.ts'
import type { Database } from './sqlite-driver.ts'
import { guardWork } from './sqlite-errors.ts'
import { numbered } from './sqlite-statements.ts'
import { createUserFinder, createUserUpdate } from './sqlite-user-rows.ts'
import type { WriteQueue } from './write-queue.ts'

export interface SqliteUserImportStoreOptions {
  readonly database: Database
  readonly writes: WriteQueue
  /** Milliseconds since the epoch. */
  readonly now: () => number
}

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, password_digest, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)`

/** The table in which SQLite keeps the last id has no row before the first user. */
const SELECT_LAST_ID = `SELECT seq FROM sqlite_sequence WHERE name = 'users'`

/** Imports in the tables `users` and `imports` of SQLite. */
export function createSqliteUserImportStore({
  database,
  writes,
  now,
}: SqliteUserImportStoreOptions): UserImportStore {
  const insert = database.prepare(INSERT)
  const selectLastId = database.prepare<[], number>(SELECT_LAST_ID).pluck()
  const selectCheckpoint = database
    .prepare<[Record<string, unknown>], CheckpointRow>(SELECT_CHECKPOINT)
    .raw()
  const upsertCheckpoint = database.prepare<[Record<string, unknown>]>(UPSERT_CHECKPOINT)
  const usersOf = createUserFinder(database)
  const update = createUserUpdate(database, writes.words)

  const read = <T>(query: () => T) => guardWork(database, query)

  function create({ id, name, email, passwordDigest, createdAt, updatedAt }: UserRow): void {
    insert.run(id, name, foldCase(name), email, passwordDigest, createdAt, updatedAt)
    writes.words.note(id)
  }

  return {
    findCheckpoint: source =>
      read(() => checkpointOf(source, selectCheckpoint.get(numbered([source])))),

    findUsers: rows => read(() => usersOf(rows)),

    lastId: () => read(() => selectLastId.get() ?? 0),

    write: ({ users, onConflict, checkpointAfter }) =>
      writes.run(() => {
        const decide = createImportDecisions({ existing: usersOf(users), onConflict, now })
        const takeId = createIdCounter(selectLastId.get() ?? 0)
        const outcomes: ImportOutcome[] = []
        for (const user of users) {
          const { outcome, before, after } = decide(user, () => takeId(user.id))
          if (before !== undefined && after !== undefined) update(before, after)
          else if (after !== undefined) create(after)
          outcomes.push(outcome)
          if (onConflict === 'fail' && outcome !== 'created') break
        }
        upsertCheckpoint.run(numbered(checkpointValues(checkpointAfter(outcomes), now())))
        return outcomes
      }),
  }
}
