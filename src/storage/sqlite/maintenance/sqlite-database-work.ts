import { resolve } from 'node:path'
import { reportFault } from '../../check-rules.ts'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { statusOf } from '../../migrations.ts'
import { inspect, requireFile, requireThere } from '../inspect-database.ts'
import { migrationsOfRelease } from '../migrator.ts'
import { openSqlite } from '../open-sqlite.ts'
import { explainErrors } from '../unusable-reasons.ts'
import { backupDatabase } from './backup-database.ts'
import { examineWords } from './check-words.ts'
import { compactDatabase } from './compact-database.ts'
import { examine } from './find-faults.ts'
import { indexWords } from './index-words.ts'
import { restoreDatabase } from './restore-database.ts'

/** Tasks on a SQLite file. Refuses `:memory:`, which other processes cannot reach. */
export function createSqliteDatabaseWork(path: string): Omit<DatabaseTasks, 'name'> {
  const now = Date.now
  return {
    migrate: async (options = {}) => {
      requireFile(path)
      const database = await openSqlite({ path, now })
      try {
        await explainErrors(() => indexWords(database, options))
      } finally {
        database.close()
      }
    },
    migrationStatus: async () => {
      requireFile(path)
      const { applied } = await explainErrors(() => inspect(path))
      return statusOf(applied, migrationsOfRelease())
    },
    backup: ({ file, ...options }) => backupDatabase({ ...options, path, target: resolve(file) }),
    restore: ({ file, ...options }) =>
      restoreDatabase({ ...options, path, backup: resolve(file), now }),
    check: () =>
      reportFault(() => {
        requireThere(path)
        return explainErrors(async () => {
          const { faults, pending } = await examine(path)
          return { faults: faults.length > 0 ? faults : await examineWords(path), pending }
        })
      }),
    compact: () => explainErrors(() => compactDatabase(path)),
  }
}
