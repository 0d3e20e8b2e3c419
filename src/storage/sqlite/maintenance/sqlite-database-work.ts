import { resolve } from 'node:path'
import type { CheckReport, DatabaseTasks } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
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
    check: () => reportFaults(path),
    compact: () => explainErrors(() => compactDatabase(path)),
  }
}

/** A file that cannot be read because of its content is a fault to report, like any other. */
async function reportFaults(path: string): Promise<CheckReport> {
  requireThere(path)
  try {
    return await explainErrors(() => {
      const { faults, pending } = examine(path)
      return { faults: faults.length > 0 ? faults : examineWords(path), pending }
    })
  } catch (error) {
    if (!(error instanceof UnusableDatabase && error.isFault)) throw error
    return { faults: [error.message], pending: [] }
  }
}
