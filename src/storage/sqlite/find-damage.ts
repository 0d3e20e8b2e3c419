import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { companionOf } from './database-files.ts'
import type { Database } from './sqlite-driver.ts'

/** The size of a database of a million users. Checking it takes 0.3 s. */
const MAX_CHECKED_BYTES = 256 * 1024 * 1024

/** How long reading such a file may take. On a slower disk, only its length is checked. */
const READ_AHEAD_PATIENCE_MS = 700

const READ_AHEAD_BYTES = 1024 * 1024

/**
 * Whether a file is shorter than its database or, with `isCached`, has pages that are not intact. Throws `SQLITE_CORRUPT` for some
 * damage that SQLite finds by itself.
 */
export function isDamaged(
  database: Database,
  { path, isCached }: { readonly path: string; readonly isCached: boolean },
): boolean {
  if (isCutShort(database, path)) return true
  return isCached && database.pragma('quick_check(1)', { simple: true }) !== 'ok'
}

/** SQLite checks this itself only without a WAL. With one, the pages that the file lacks may be in the WAL. */
function isCutShort(database: Database, path: string): boolean {
  const pages = Number(database.pragma('page_count', { simple: true }))
  const pageBytes = Number(database.pragma('page_size', { simple: true }))
  const walBytes = statSync(companionOf(path, '-wal'), { throwIfNoEntry: false })?.size ?? 0
  return statSync(path).size + walBytes < pages * pageBytes
}

/**
 * Reads a file into the system's cache, because a check reads it in random order. False if the file is too large to check
 * at startup, or the disk is too slow.
 */
export function canReadAhead(path: string): boolean {
  if (statSync(path).size > MAX_CHECKED_BYTES) return false
  const deadline = performance.now() + READ_AHEAD_PATIENCE_MS
  const chunk = Buffer.allocUnsafe(READ_AHEAD_BYTES)
  const file = openSync(path, 'r')
  try {
    while (readSync(file, chunk) > 0) if (performance.now() > deadline) return false
    return true
  } finally {
    closeSync(file)
  }
}
