import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, dirname } from 'node:path'
import Database from 'better-sqlite3'

/** The e-mail addresses of the users in a database that nobody writes to, in the order of their ids. */
export function emailsIn(path: string): string[] {
  const database = new Database(path, { readonly: true })
  try {
    return database.prepare<[], string>('SELECT email FROM users ORDER BY id').pluck().all()
  } finally {
    database.close()
  }
}

/** The names of the files beside a path, itself included, that begin with its own name. */
export function filesOf(path: string): string[] {
  if (!existsSync(dirname(path))) return []
  return readdirSync(dirname(path)).filter(name => name.startsWith(basename(path)))
}

/** The permissions of a file, as in 0o600. */
export function modeOf(path: string): number {
  return statSync(path).mode & 0o777
}

/** Changes a database, which is made where there is none, as no release would. */
export function execute(path: string, sql: string): void {
  const database = new Database(path)
  database.exec(sql)
  database.close()
}
