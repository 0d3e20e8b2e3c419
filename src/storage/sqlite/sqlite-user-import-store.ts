import { createIdCounter, createImportDecisions } from '../../users/transfer/import-decisions.ts'
import type { ImportOutcome, UserImportStore } from '../../users/transfer/user-import-store.ts'
import type { UserRow } from '../../users/user-repository.ts'
import { foldCase } from '../../users/user-schemas.ts'
import {
  checkpointValues,
  createCheckpointFinder,
  UPSERT_CHECKPOINT,
} from '../import-checkpoints.ts'
import { guardWork } from './sqlite-errors.ts'
import type { SqliteParts } from './sqlite-statements.ts'
import { createUserFinder, createUserUpdate } from './sqlite-user-rows.ts'

const INSERT = `
  INSERT INTO users (id, name, name_lower, email, password_digest, created_at, updated_at)
  VALUES (?, ?, ?, ?, ?, ?, ?)`

/** The table in which SQLite keeps the last id has no row before the first user. */
const SELECT_LAST_ID = `SELECT seq FROM sqlite_sequence WHERE name = 'users'`

/** Imports in the tables `users` and `imports` of SQLite. */
export function createSqliteUserImportStore(
  parts: Pick<SqliteParts, 'database' | 'writes' | 'statements' | 'now'>,
): UserImportStore {
  const { database, writes, statements, now } = parts
  const insert = database.prepare(INSERT)
  const selectLastId = database.prepare<[], number>(SELECT_LAST_ID).pluck()
  const usersOf = createUserFinder(database)
  const update = createUserUpdate(database, writes)

  const read = <T>(query: () => T) => guardWork(database, query)

  function create({ id, name, email, passwordDigest, createdAt, updatedAt }: UserRow): void {
    insert.run(id, name, foldCase(name), email, passwordDigest, createdAt, updatedAt)
    writes.noteWords(id)
  }

  return {
    findCheckpoint: createCheckpointFinder(statements),

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
        statements.run(UPSERT_CHECKPOINT, checkpointValues(checkpointAfter(outcomes), now()))
        return outcomes
      }),
  }
}
