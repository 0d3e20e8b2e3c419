import { resolve } from 'node:path'
import type { CheckReport, DatabaseTasks } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { fillWords } from '../../word-filler.ts'
import { requireFile, requireThere, START_PATIENCE_MS } from '../inspect-database.ts'
import { migrationStatus, openSqlite } from '../open-sqlite.ts'
import { explainErrors } from '../unusable-reasons.ts'
import { clearWords, createIndexedWords } from '../word-index.ts'
import { backupDatabase } from './backup-database.ts'
import { examineWords } from './check-words.ts'
import { compactDatabase } from './compact-database.ts'
import { examine } from './find-faults.ts'
import { restoreDatabase } from './restore-database.ts'

/** A service that is running can write in between. */
const USERS_A_STEP = 5000

/** Tasks on a SQLite file. Refuses `:memory:`, which other processes cannot reach. */
export function createSqliteDatabaseWork(path: string): Omit<DatabaseTasks, 'name'> {
  const now = Date.now
  return {
    migrate: async ({ reindex = false, onIndexing, signal } = {}) => {
      requireFile(path)
      const database = await openSqlite({ path, now })
      const run = async <T>(work: () => T) => database.transaction(work).immediate()
      try {
        await explainErrors(async () => {
          database.pragma(`busy_timeout = ${START_PATIENCE_MS}`)
          if (reindex) clearWords(database)
          const words = createIndexedWords({ database, run, usersAStep: USERS_A_STEP })
          await fillWords(words, { onStep: onIndexing, signal })
        })
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
