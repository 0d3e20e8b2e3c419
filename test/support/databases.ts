import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'

/** Opens a database of SQLite for the time of `work`. */
export function withSqlite<T>(
  path: string,
  work: (database: Database) => T,
  options?: { readonly readonly: boolean },
): T {
  const database = new Database(path, options)
  try {
    return work(database)
  } finally {
    database.close()
  }
}

/** Rows of a database to which no process writes meanwhile. */
export function rowsIn<T>(path: string, sql: string): T[] {
  return withSqlite(path, database => database.prepare<[], T>(sql).all(), { readonly: true })
}

/** The e-mails of all users by id. No process may write to the database meanwhile. */
export function emailsIn(path: string): string[] {
  const rows = rowsIn<{ email: string }>(path, 'SELECT email FROM users ORDER BY id')
  return rows.map(({ email }) => email)
}

/** The names in the folder of a path that begin with the name of its file, which is included. */
export function filesOf(path: string): string[] {
  if (!existsSync(dirname(path))) return []
  return readdirSync(dirname(path)).filter(name => name.startsWith(basename(path)))
}

/** The permissions of a file, such as 0o600. */
export function modeOf(path: string): number {
  return statSync(path).mode & 0o777
}

/** Changes a database directly, in a way that no release does. Creates a missing one. */
export function execute(path: string, sql: string): void {
  withSqlite(path, database => database.exec(sql))
}
