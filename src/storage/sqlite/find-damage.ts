import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { companionOf } from './database-files.ts'
import type { Database } from './sqlite-driver.ts'

/** The size of a database of a million users. Checking it takes 0.3 s. */
const MAX_CHECKED_BYTES = 256 * 1024 * 1024

/** How long reading such a file may take. On a slower disk, only the first pages of each table are checked. */
const READ_AHEAD_PATIENCE_MS = 700

const READ_AHEAD_BYTES = 1024 * 1024

/** How many pages of each table and index are checked if there is no time for all. */
const PAGES_LOOKED_AT = 200

const SELECT_TREES = `SELECT name FROM sqlite_schema WHERE rootpage > 0`

const COUNT_DAMAGED_PAGES = `
  SELECT count(*) FROM (SELECT pagetype FROM dbstat WHERE name = ? LIMIT ${PAGES_LOOKED_AT})
  WHERE pagetype NOT IN ('internal', 'leaf', 'overflow')`

/**
 * Whether pages of a database are missing or not intact. With `isCached` all pages are checked, else the first ones of each
 * table and index. Throws `SQLITE_CORRUPT` for some damage that SQLite finds by itself.
 */
export function isDamaged(
  database: Database,
  { path, isCached }: { readonly path: string; readonly isCached: boolean },
): boolean {
  if (isCutShort(database, path)) return true
  if (!isCached) return isDamagedAtFirstSight(database)
  return database.pragma('quick_check(1)', { simple: true }) !== 'ok'
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

function isDamagedAtFirstSight(database: Database): boolean {
  const names = database.prepare<[], string>(SELECT_TREES).pluck().all()
  const damagedPages = database.prepare<[string], number>(COUNT_DAMAGED_PAGES).pluck()
  return names.some(name => damagedPages.get(name) !== 0)
}
