import type { PostgresLocation } from '../../../config/postgres-url.ts'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { explainBackup, explainCheck, explainCompact, explainRestore } from './client-commands.ts'

/**
 * Tasks on a PostgreSQL database. `backup`, `restore` and `compact` are refused with the command that does them; `check` names the
 * command that checks pages.
 */
export function createPostgresDatabaseTasks(location: PostgresLocation): DatabaseTasks {
  const places = location.hosts.map(({ host, port }) => `${host}:${port}`).join(',')
  // Only when it is used: loading the driver takes tens of milliseconds.
  const loadWork = () => import('./postgres-database-work.ts')
  return {
    name: `postgres://${places}/${location.database}`,
    migrate: async options => (await loadWork()).migrateDatabase(location, options),
    migrationStatus: async () => (await loadWork()).readMigrationStatus(location),
    backup: async ({ file }) => {
      throw new UnusableDatabase(explainBackup(location, file))
    },
    restore: async ({ file }) => {
      throw new UnusableDatabase(explainRestore(location, file))
    },
    check: async () => {
      const report = await (await loadWork()).checkPostgresDatabase(location)
      return { ...report, advice: explainCheck(location) }
    },
    compact: async () => {
      throw new UnusableDatabase(explainCompact(location))
    },
  }
}
