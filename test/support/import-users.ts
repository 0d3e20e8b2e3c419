import type {
  ImportBatch,
  ImportCheckpoint,
  ImportedUser,
  UserImportStore,
} from '../../src/users/transfer/user-import-store.ts'
import type { UserRow } from '../../src/users/user-repository.ts'
import { execute, rowsIn } from './databases.ts'
import { newSqlitePath, openSqliteStored, openStored } from './stored.ts'

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

/** A store on an empty database. */
export async function openImportStore(now: () => number) {
  const { storage, databaseUrl, sql } = await openStored({ now })
  const users = async () => (await sql(SELECT_USERS)) as unknown as UserRow[]
  return { store: storage.imports, databaseUrl, sql, users }
}

/** A store on an empty database of SQLite, whatever the engine of the suite is. */
export async function openSqliteImportStore(now: () => number) {
  const path = newSqlitePath()
  const { imports } = await openSqliteStored(path, { now })
  return {
    store: imports,
    users: async () => rowsIn<UserRow>(path, SELECT_USERS),
    sql: async (text: string) => execute(path, text),
  }
}
