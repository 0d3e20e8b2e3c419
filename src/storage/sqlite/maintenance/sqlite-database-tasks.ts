import { resolve } from 'node:path'
import { reportFault } from '../../check-rules.ts'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { foldWords } from '../../fold-words.ts'
import { migrationsFor, statusOf } from '../../migrations.ts'
import { inspect, requireFile, requireThere, START_PATIENCE_MS } from '../inspect-database.ts'
import { openSqlite } from '../open-sqlite.ts'
import { explainErrors } from '../sqlite-errors.ts'
import { createLoneStatements } from '../sqlite-statements.ts'
import { expireReads } from '../sqlite-user-reads.ts'
import { isIndexWrong, REBUILD_INDEX, SQLITE_WORDS } from '../sqlite-words.ts'
import { backupDatabase } from './backup-database.ts'
import { compactDatabase } from './compact-database.ts'
import { examine } from './find-faults.ts'
import { restoreDatabase } from './restore-database.ts'

/** Tasks on a SQLite file. Refuses `:memory:`, which other processes cannot reach. */
export function createSqliteDatabaseTasks(path: string): DatabaseTasks {
  return {
    name: path,
    migrate: async ({ reindex = false, newFeed, onFolding, signal } = {}) => {
      requireFile(path)
      const database = await openSqlite({ path, now: Date.now })
      try {
        await explainErrors(async () => {
          database.pragma(`busy_timeout = ${START_PATIENCE_MS}`)
          if (newFeed) expireReads(database)
          if (reindex && isIndexWrong(database)) database.exec(REBUILD_INDEX)
          const folding = { isForced: reindex, onStep: onFolding, signal }
          await foldWords(createLoneStatements(database), SQLITE_WORDS, folding)
        })
      } finally {
        database.close()
      }
    },
    migrationStatus: async () => {
      requireFile(path)
      const { applied } = await explainErrors(() => inspect(path))
      return statusOf(applied, migrationsFor('sqlite'))
    },
    backup: ({ file, ...options }) => backupDatabase({ ...options, path, target: resolve(file) }),
    restore: ({ file }) => restoreDatabase({ path, backup: resolve(file) }),
    check: () =>
      reportFault(() => {
        requireThere(path)
        return explainErrors(() => examine(path, { withWords: true }))
      }),
    compact: () => explainErrors(() => compactDatabase(path)),
  }
}
