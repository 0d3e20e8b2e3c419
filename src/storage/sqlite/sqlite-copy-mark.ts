import type { Database } from './sqlite-driver.ts'

const TABLE_EXISTS = `
  SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'unfinished_copies'`

const SELECT_SOURCE = `SELECT source_hash FROM unfinished_copies`

/** The source of the copy that began in a database and is not complete. Older schemas have no such copies. */
export function readCopyMark(database: Database): string | undefined {
  if (database.prepare(TABLE_EXISTS).pluck().get() === 0) return undefined
  return database.prepare<[], string>(SELECT_SOURCE).pluck().get()
}
