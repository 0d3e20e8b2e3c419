import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import { Database } from '../../src/storage/sqlite/sqlite-driver.ts'

/** The e-mails of all users by id. No process may write to the database meanwhile. */
export function emailsIn(path: string): string[] {
  const database = new Database(path, { readonly: true })
  try {
    return database.prepare<[], string>('SELECT email FROM users ORDER BY id').pluck().all()
  } finally {
    database.close()
  }
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
  const database = new Database(path)
  database.exec(sql)
  database.close()
}
