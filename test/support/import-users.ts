import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'
import type {
  ImportBatch,
  ImportCheckpoint,
  ImportedUser,
  UserImportStore,
} from '../../src/users/transfer/user-import-store.ts'
import type { UserRow } from '../../src/users/user-repository.ts'
import { openSqliteStored } from './open-stored.ts'
import { temporaryFolder } from './open-test-app.ts'

/** Of an import that goes on. */
export const CHECKPOINT: ImportCheckpoint = {
  source: 'users.csv',
  records: 0,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: { created: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 },
  isFinished: false,
}

/** Imports a batch. Resolves to what became of each user. */
export async function importUsers(
  store: UserImportStore,
  users: readonly ImportedUser[],
  onConflict: ImportBatch['onConflict'] = 'fail',
) {
  return store.write({ users, onConflict, checkpointAfter: () => CHECKPOINT })
}

export type { UserRow }

/** The stored users, each a `UserRow`. */
export const SELECT_USERS = `
  SELECT id, name, email, password_digest AS "passwordDigest", created_at AS "createdAt",
    updated_at AS "updatedAt"
  FROM users ORDER BY id`

/** A store on an empty database of SQLite. */
export async function openSqliteImportStore(now: () => number) {
  const path = join(temporaryFolder(), 'users.db')
  const { imports } = await openSqliteStored(path, { now })
  const database = new Database(path)
  onTestFinished(() => void database.close())
  const selectUsers = database.prepare<[], UserRow>(SELECT_USERS)
  return {
    store: imports,
    users: async () => selectUsers.all(),
    sql: async (text: string) => void database.exec(text),
  }
}
