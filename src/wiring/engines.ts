import type { DatabaseLocation } from '../config/settings.ts'
import type { DatabaseTasks } from '../storage/database-tasks.ts'
import { createPostgresEngine } from '../storage/postgres/postgres-storage.ts'
import { createSqliteEngine } from '../storage/sqlite/sqlite-storage.ts'
import type { StorageEngine } from '../storage/storage.ts'
import type { UserImportStore } from '../users/transfer/user-import-store.ts'

type Kind = DatabaseLocation['kind']

type LocationOf<K extends Kind> = Extract<DatabaseLocation, { readonly kind: K }>

interface EngineParts<Location> {
  readonly engine: (location: Location) => StorageEngine
  readonly tasks: (location: Location) => Promise<DatabaseTasks>
}

/** The only place that names engines: a new one needs one more row, and a folder in `storage`. */
const ENGINES: { readonly [K in Kind]: EngineParts<LocationOf<K>> } = {
  sqlite: {
    engine: ({ path }) => createSqliteEngine(path),
    tasks: async ({ path }) => {
      const tasks = await import('../storage/sqlite/maintenance/sqlite-database-tasks.ts')
      return tasks.createSqliteDatabaseTasks(path)
    },
  },
  postgres: {
    engine: createPostgresEngine,
    tasks: async location => {
      const tasks = await import('../storage/postgres/maintenance/postgres-database-tasks.ts')
      return tasks.createPostgresDatabaseTasks(location)
    },
  },
}

function partsOf(location: DatabaseLocation) {
  return ENGINES[location.kind] as EngineParts<DatabaseLocation>
}

/** The engine of a database, which need not be open or exist. */
export function engineOf(location: DatabaseLocation): StorageEngine {
  return partsOf(location).engine(location)
}

/** Maintenance tasks on a database. */
export function openTasks(location: DatabaseLocation): Promise<DatabaseTasks> {
  return partsOf(location).tasks(location)
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
