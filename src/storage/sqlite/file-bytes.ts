import { statSync } from 'node:fs'
import type { StorageReport } from '../storage-report.ts'
import { companionOf, IN_MEMORY } from './database-files.ts'

/** Returns what reads the sizes of the files of a database. Nothing is read of one in memory. */
export function watchFileBytes(path: string): () => Pick<StorageReport, 'fileBytes'> {
  if (path === IN_MEMORY) return () => ({})
  const walPath = companionOf(path, '-wal')
  return () => {
    const database = sizeOf(path)
    // The last connection that closes deletes the WAL.
    return database === undefined ? {} : { fileBytes: { database, wal: sizeOf(walPath) ?? 0 } }
  }
}

/** Synchronous, because SQLite reads the same files in this thread, and a stat takes microseconds. */
function sizeOf(path: string): number | undefined {
  try {
    return statSync(path).size
  } catch {
    return undefined
  }
}
