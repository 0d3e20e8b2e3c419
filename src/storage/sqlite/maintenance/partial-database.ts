import { closeSync, openSync, rmSync } from 'node:fs'
import { partialNameOf } from '../../../platform/durable-files.ts'
import { COMPANIONS } from '../database-files.ts'
import { Database } from '../sqlite-driver.ts'
import { explainErrors } from '../sqlite-errors.ts'

/**
 * Runs `work` on an empty file of mode 600 beside `path` and returns its result. Then removes the file, unless `work` has
 * renamed it, and the files that SQLite keeps beside it. Throws `UnusableDatabase` if the file cannot be created.
 */
export async function withPartialDatabase<T>(
  path: string,
  work: (partial: string) => Promise<T>,
): Promise<T> {
  const partial = partialNameOf(path)
  await explainErrors(() => closeSync(openSync(partial, 'wx', 0o600)), path)
  try {
    return await work(partial)
  } finally {
    for (const ending of ['', ...COMPANIONS]) rmSync(partial + ending, { force: true })
  }
}

/** A copy of a database in WAL mode is in WAL mode too, and reading it would create files beside it. */
export function leaveWal(path: string): void {
  withDatabase(path, database => database.pragma('journal_mode = DELETE'))
}

/** Opens such a file for some work. */
export function withDatabase<T>(path: string, work: (database: Database) => T): T {
  const database = new Database(path)
  try {
    return work(database)
  } finally {
    database.close()
  }
}
