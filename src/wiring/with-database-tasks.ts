import { type Config, describeMistake } from '../config/settings.ts'
import type { DatabaseTasks } from '../storage/database-tasks.ts'
import { createPostgresDatabaseTasks } from '../storage/postgres/maintenance/postgres-database-tasks.ts'
import { createSqliteDatabaseTasks } from '../storage/sqlite/maintenance/sqlite-database-tasks.ts'
import { blaming } from '../storage/unusable-database.ts'

/**
 * Runs `work` with the tasks on the database of the settings. Throws `OperatorError` if the database or a file cannot be used.
 * A new engine needs one more case here and in `engineOf`.
 */
export function withDatabaseTasks<T>(
  { database }: Config,
  work: (tasks: DatabaseTasks) => Promise<T>,
): Promise<T> {
  const tasks =
    database.kind === 'sqlite'
      ? createSqliteDatabaseTasks(database.path)
      : createPostgresDatabaseTasks(database)
  const describe = (reason: string) => describeMistake('DATABASE_URL', database.url, reason)
  return blaming(describe, () => work(tasks))
}
