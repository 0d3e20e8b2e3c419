import { dirname } from 'node:path'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { companionOf } from '../database-files.ts'

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
    check: async () => (await loadWork()).check(),
    compact: async options => {
      // SQLite's temporary file holds users, so it belongs on the disk of the database; /tmp may also be in memory. SQLite
      // reads the variable once, when it is loaded.
      options.environment.SQLITE_TMPDIR ??= dirname(companionOf(path, '-journal'))
      return (await loadWork()).compact(options)
    },
  }
}
