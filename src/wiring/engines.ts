import type { DatabaseLocation } from '../config/settings.ts'
import type { DatabaseTasks } from '../storage/database-tasks.ts'
import { createPostgresEngine } from '../storage/postgres/postgres-storage.ts'
import { createSqliteEngine } from '../storage/sqlite/sqlite-storage.ts'
import type { StorageEngine } from '../storage/storage.ts'
import type { UserImportStore } from '../users/transfer/user-import-store.ts'

// The only file that names engines: a new one needs a branch of each function, and a folder in `storage`.

/** The engine of a database, which need not be open or exist. */
export function engineOf(location: DatabaseLocation): StorageEngine {
  if (location.kind === 'sqlite') return createSqliteEngine(location.path)
  return createPostgresEngine(location)
}

/** Maintenance tasks on a database. */
export async function openTasks(location: DatabaseLocation): Promise<DatabaseTasks> {
  if (location.kind === 'sqlite') {
    const tasks = await import('../storage/sqlite/maintenance/sqlite-database-tasks.ts')
    return tasks.createSqliteDatabaseTasks(location.path)
  }
  const tasks = await import('../storage/postgres/maintenance/postgres-database-tasks.ts')
  return tasks.createPostgresDatabaseTasks(location)
}

/** An empty database, which ends with the process. */
export const EMPTY_DATABASE: DatabaseLocation = {
  kind: 'sqlite',
  url: ':memory:',
  path: ':memory:',
}

/** An import that writes nothing: it keeps what it would write in an empty database, beside the database of `imports`. */
export async function openTrialImports(imports: UserImportStore, now: () => number) {
  // Only when it is used: commands on PostgreSQL run without the binary of better-sqlite3.
  const sqlite = await import('../storage/sqlite/sqlite-user-import-store.ts')
  return sqlite.openTrialImports(imports, now)
}
