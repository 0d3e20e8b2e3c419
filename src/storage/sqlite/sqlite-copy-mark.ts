import type { Database } from './sqlite-driver.ts'

const TABLE_EXISTS = `
  SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'unfinished_copies'`

const SELECT_IS_UNFINISHED = `SELECT EXISTS (SELECT 1 FROM unfinished_copies)`

/** Whether a copy began in a database and is not complete. Older schemas have no such copies. */
export function isUnfinishedCopy(database: Database): boolean {
  if (database.prepare(TABLE_EXISTS).pluck().get() === 0) return false
  return database.prepare(SELECT_IS_UNFINISHED).pluck().get() === 1
}
