import { accessSync, constants, realpathSync } from 'node:fs'
import { resolve } from 'node:path'
import { reportFault } from '../../check-rules.ts'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { foldWords } from '../../fold-words.ts'
import { migrationsFor, statusOf } from '../../migrations.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { closing, openExclusively } from '../connect.ts'
import { bytesOf } from '../database-files.ts'
import {
  inspect,
  requireContent,
  requireFile,
  requireThere,
  requireUsable,
  START_PATIENCE_MS,
  WHOLE_CACHE_KIB,
} from '../inspect-database.ts'
import { openSqlite, syncRecovered } from '../open-sqlite.ts'
import { DAMAGED, EMPTY, explainErrors } from '../sqlite-errors.ts'
import { createLoneStatements } from '../sqlite-statements.ts'
import { expireReads } from '../sqlite-user-reads.ts'
import { isIndexWrong, OPTIMIZE_INDEX, REBUILD_INDEX, SQLITE_WORDS } from '../sqlite-words.ts'
import { backupDatabase } from './backup-database.ts'
import { examine } from './find-faults.ts'
import { restoreDatabase } from './restore-database.ts'

/** Tasks on a SQLite file. Refuses `:memory:`, which other processes cannot reach. */
export function createSqliteDatabaseTasks(path: string): DatabaseTasks {
  return {
    name: path,
    migrate: async ({ reindex = false, newFeed, onFolding, signal } = {}) => {
      requireFile(path)
      await explainErrors(async () =>
        closing(await openSqlite({ path, now: Date.now }), async database => {
          database.pragma(`busy_timeout = ${START_PATIENCE_MS}`)
          if (newFeed) expireReads(database)
          if (reindex && isIndexWrong(database)) database.exec(REBUILD_INDEX)
          const folding = { isForced: reindex, onStep: onFolding, signal }
          await foldWords(createLoneStatements(database), SQLITE_WORDS, folding)
        }),
      )
    },
    migrationStatus: async () => {
      requireFile(path)
      const { applied } = await explainErrors(() => inspect(path))
      return statusOf(applied, migrationsFor('sqlite'))
    },
    backup: options => backupDatabase(path, { ...options, file: resolve(options.file) }),
    restore: ({ file }) => restoreDatabase(path, resolve(file)),
    check: () =>
      reportFault(() => {
        requireThere(path)
        return explainErrors(() => examine(path, { withWords: true }))
      }),
    compact: () => explainErrors(() => compactDatabase(path)),
  }
}

/**
 * Returns the free pages of a database to the file system. The file keeps its inode, permissions and journal mode. VACUUM
 * writes the new content in one transaction, into the WAL or over a journal: however this process ends, the file holds all
 * of the old content or all of the new content. Throws `UnusableDatabase` while another process has it open.
 */
async function compactDatabase(link: string) {
  requireThere(link)
  const path = realpathSync(link)
  requireContent(path)
  // SQLite reports a lock that it cannot take on a file without write permission as a failing disk.
  accessSync(path, constants.W_OK)
  const bytesOfAll = () => bytesOf(path) + bytesOf(`${path}-wal`)
  const bytesBefore = bytesOfAll()
  if (bytesBefore === 0) throw new UnusableDatabase(EMPTY)
  syncRecovered(path)
  await closing(await openExclusively(path), database => {
    database.pragma(`cache_size = -${WHOLE_CACHE_KIB}`)
    requireUsable(database)
    // VACUUM copies only what it can reach, which would make repairable damage permanent.
    if (database.pragma('integrity_check(1)', { simple: true }) !== 'ok') {
      throw new UnusableDatabase(DAMAGED, { isFault: true })
    }
    // The index of words keeps those of deleted users otherwise.
    database.exec(OPTIMIZE_INDEX)
    database.exec('VACUUM')
    // Does nothing if the database is not in WAL.
    database.pragma('wal_checkpoint(TRUNCATE)')
  })
  return { bytesBefore, bytesAfter: bytesOfAll() }
}
