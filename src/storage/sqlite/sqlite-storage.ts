import { existsSync } from 'node:fs'
import type { StorageEngine } from '../storage.ts'
import { IN_MEMORY, isFileOfDatabase } from './database-files.ts'

/** SQLite in a file, or in memory for the path `:memory:`. */
export function createSqliteEngine(path: string): StorageEngine {
  return {
    isInMemory: path === IN_MEMORY,
    exists: async () => path !== IN_MEMORY && existsSync(path),
    open: async options => {
      // Only when it is used: a service on PostgreSQL runs without the binary of better-sqlite3.
      const { openSqliteStorage } = await import('./open-sqlite-storage.ts')
      return openSqliteStorage(path, options)
    },
    ownsFile: file => isFileOfDatabase(file, path),
  }
}
