import type { Config } from '../config/settings.ts'
import type { DatabaseLocation } from '../config/settings.ts'
import type { DatabaseTasks } from '../storage/database-tasks.ts'
import { createPostgresDatabaseTasks } from '../storage/postgres/maintenance/postgres-database-tasks.ts'
import { createSqliteDatabaseTasks } from '../storage/sqlite/maintenance/sqlite-database-tasks.ts'
import { blameFile } from './blame-setting.ts'

/** The tasks on the database of the settings. They throw `OperatorError` instead of `UnusableDatabase`. */
export function createDatabaseTasks({ database }: Config): DatabaseTasks {
  const tasks = tasksOf(database)
  const blame = <T>(work: () => Promise<T>) => blameFile(database, work)
  return {
    name: tasks.name,
    migrate: options => blame(() => tasks.migrate(options)),
    migrationStatus: () => blame(tasks.migrationStatus),
    backup: options => blame(() => tasks.backup(options)),
    restore: options => blame(() => tasks.restore(options)),
    check: () => blame(tasks.check),
    compact: options => blame(() => tasks.compact(options)),
  }
}

/** A new engine needs one more case here and in `open-storage.ts`. */
function tasksOf(location: DatabaseLocation): DatabaseTasks {
  switch (location.kind) {
    case 'sqlite':
      return createSqliteDatabaseTasks(location.path)
    case 'postgres':
      return createPostgresDatabaseTasks(location)
  }
}
