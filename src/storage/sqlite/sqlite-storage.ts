import { existsSync } from 'node:fs'
import { dirname } from 'node:path'
import type { StorageEngine } from '../storage.ts'
import { companionOf, IN_MEMORY, isFileOfDatabase } from './database-files.ts'

/** SQLite in a file, or in memory for the path `:memory:`. */
export function createSqliteEngine(path: string): StorageEngine {
  const isInMemory = path === IN_MEMORY
  return {
    isInMemory,
    exists: async () => !isInMemory && existsSync(path),
    open: async options => {
      // Only when it is used: a service on PostgreSQL runs without the binary of better-sqlite3.
      const { openSqliteStorage } = await import('./open-sqlite-storage.ts')
      return openSqliteStorage(path, options)
    },
    file: isInMemory ? undefined : path,
    ownsFile: file => isFileOfDatabase(file, path),
    keepTemporaryFiles: environment => {
      // SQLite reads it once, when it is loaded.
      if (!isInMemory) environment.SQLITE_TMPDIR ||= dirname(companionOf(path, '-journal'))
    },
  }
}
