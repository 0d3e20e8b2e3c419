import { resolve } from 'node:path'
import { reportFault } from '../../check-rules.ts'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { requireFile, requireThere } from '../inspect-database.ts'
import { migrationStatus, openSqlite } from '../open-sqlite.ts'
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
      return migrationStatus(path)
    },
    backup: ({ file, ...options }) => backupDatabase({ ...options, path, target: resolve(file) }),
    restore: ({ file, ...options }) =>
      restoreDatabase({ ...options, path, backup: resolve(file), now }),
    check: () =>
      reportFault(() => {
        requireThere(path)
        return explainErrors(() => {
          const { faults, pending } = examine(path)
          return { faults: faults.length > 0 ? faults : examineWords(path), pending }
        })
      }),
    compact: () => explainErrors(() => compactDatabase(path)),
  }
}
