import { closeSync, openSync, readSync, statSync } from 'node:fs'
import type { Database } from 'better-sqlite3'

/** A file of a million users, which is looked through in 0.3 s. */
const MAX_CHECKED_BYTES = 256 * 1024 * 1024

/** How long reading such a file may take: from a slow disk, only the beginnings of its tables are looked at. */
const READ_AHEAD_PATIENCE_MS = 700

const READ_AHEAD_BYTES = 1024 * 1024

/** Of each table and index, where there is not the time for all. */
const PAGES_LOOKED_AT = 200

const SELECT_TREES = `SELECT name FROM sqlite_schema WHERE rootpage > 0`

const COUNT_DAMAGED_PAGES = `
  SELECT count(*) FROM (SELECT pagetype FROM dbstat WHERE name = ? LIMIT ${PAGES_LOOKED_AT})
  WHERE pagetype NOT IN ('internal', 'leaf', 'overflow')`

/**
 * Whether pages of the database in this file are missing or make no sense: all of them are looked at, or as many as
 * a start has the time for. Throws `SQLITE_CORRUPT` for some of what SQLite finds by itself.
 */
export function isDamaged(
  database: Database,
  { path, isCached }: { readonly path: string; readonly isCached: boolean },
): boolean {
  if (isCutShort(database, path)) return true
  if (!isCached) return isDamagedAtFirstSight(database)
  return database.pragma('quick_check(1)', { simple: true }) !== 'ok'
}

/** SQLite looks itself where there is no WAL; with one, what the file lacks may be in there. */
function isCutShort(database: Database, path: string): boolean {
  const pages = Number(database.pragma('page_count', { simple: true }))
  const pageBytes = Number(database.pragma('page_size', { simple: true }))
  const walBytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0
  return statSync(path).size + walBytes < pages * pageBytes
}

/**
 * Whether the file is small enough to be looked through, and came into the system's cache in time: a check follows its
 * trees, and reads it in no order.
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
