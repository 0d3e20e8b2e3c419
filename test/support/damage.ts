import { closeSync, copyFileSync, openSync, writeSync } from 'node:fs'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'

export const PAGE_BYTES = 4096

/** Fills pages of a database file with repetitions of `text`. The first page is 0. */
export function overwritePages(
  path: string,
  text: string,
  { from, to = from + 1 }: { from: number; to?: number },
) {
  const file = openSync(path, 'r+')
  const bytes = (to - from) * PAGE_BYTES
  writeSync(file, Buffer.alloc(bytes, text), 0, bytes, from * PAGE_BYTES)
  closeSync(file)
}

/**
 * Removes rows from the index by name of a database of 3000 users. No statement can do this, because each updates the
 * indexes. So the root page of the index is replaced by that of an index of fewer rows.
 */
export function forgetInIndex(path: string): void {
  const database = new Database(path)
  database.unsafeMode()
  database.exec(`
    CREATE INDEX few ON users (name_lower) WHERE id < 1500;
    PRAGMA writable_schema = ON;
    UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'few')
      WHERE name = 'users_by_name';
    DELETE FROM sqlite_schema WHERE name = 'few'`)
  database.close()
}

/** Copies a database in the middle of a write that does not fit into the cache, and the journal that undoes it. */
export function copyHalfWritten(from: string, to: string): void {
  const database = new Database(from)
  database.pragma('journal_mode = DELETE')
  database.pragma('cache_size = 1')
  database.exec('BEGIN; CREATE TABLE half (text)')
  const insert = database.prepare('INSERT INTO half VALUES (?)')
  for (let row = 0; row < 100; row++) insert.run('half '.repeat(500))
  for (const ending of ['', '-journal']) copyFileSync(from + ending, to + ending)
  database.exec('ROLLBACK')
  database.close()
}
