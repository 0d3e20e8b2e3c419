import type { DatabaseTasks } from '../../database-tasks.ts'

/** Tasks on a SQLite file. Refuses `:memory:`, which other processes cannot reach. */
export function createSqliteDatabaseTasks(path: string): DatabaseTasks {
  // Only when it is used: a service on PostgreSQL runs without the binary of better-sqlite3.
  const loadWork = async () => {
    const { createSqliteDatabaseWork } = await import('./sqlite-database-work.ts')
    return createSqliteDatabaseWork(path)
  }
  return {
    name: path,
    migrate: async options => (await loadWork()).migrate(options),
    migrationStatus: async () => (await loadWork()).migrationStatus(),
    backup: async options => (await loadWork()).backup(options),
    restore: async options => (await loadWork()).restore(options),
    check: async options => (await loadWork()).check(options),
    compact: async options => (await loadWork()).compact(options),
  }
}
