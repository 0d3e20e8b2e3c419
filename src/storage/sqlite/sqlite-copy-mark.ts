import type { Database } from './sqlite-driver.ts'
import { hasTable } from './sqlite-statements.ts'

const SELECT_IS_UNFINISHED = `SELECT EXISTS (SELECT 1 FROM unfinished_copies)`

/** Whether a copy began in a database and is not complete. Older schemas have no such copies. */
export function isUnfinishedCopy(database: Database): boolean {
  if (!hasTable(database, 'unfinished_copies')) return false
  return database.prepare(SELECT_IS_UNFINISHED).pluck().get() === 1
}
