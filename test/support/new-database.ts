import { join } from 'node:path'
import { engine } from './engine.ts'
import type { AtEnd } from './open-test-app.ts'
import { copyPostgresTemplate } from './postgres-databases.ts'

const databases = new Map<string, Promise<string>>()

/**
 * DATABASE_URL of the database that belongs to a folder: on SQLite a file in it, otherwise a database that is made for it.
 */
export function databaseIn(folder: string, file = 'users.db', atEnd?: AtEnd): Promise<string> {
  if (engine === 'sqlite') return Promise.resolve(join(folder, file))
  const known = databases.get(folder)
  if (known !== undefined) return known
  const made = copyPostgresTemplate(atEnd)
  databases.set(folder, made)
  return made
}
