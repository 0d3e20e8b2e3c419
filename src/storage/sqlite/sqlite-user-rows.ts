import type { UserRow } from '../../users/user-repository.ts'
import { foldCase } from '../../users/user-schemas.ts'
import { wordsOfUser } from '../../users/words.ts'
import type { Database } from './sqlite-driver.ts'
import { rememberStatements } from './sqlite-statements.ts'

/** A user as clients see it. It must not contain the password digest. */
export const REPRESENTATION = `json_object(
  'id', id, 'name', name, 'email', email, 'created_at', created_at, 'updated_at', updated_at)`

/** SQL for the revision of the users. */
export const SELECT_REVISION = `
  SELECT lists_id || '-' || revision FROM users_summary WHERE singleton = 1`

/** The columns of a `UserRow`, by its names. */
const ROW_COLUMNS = `id, name, email, password_digest AS passwordDigest, created_at AS createdAt, updated_at AS updatedAt`

/** Selects a `UserRow` by its id. */
export const SELECT_ROW = `SELECT ${ROW_COLUMNS} FROM users WHERE id = ?`

/**
 * Names only the columns that change: SQLite rewrites the index of every column in SET, changed or not. When only the name
 * changes, this saves 6 of 104 µs.
 */
function updateSql(columns: readonly string[]): string {
  return `UPDATE users SET ${columns.map(column => `${column} = ?`).join(', ')} WHERE id = ?`
}

/** Returns what writes the differences of two states of a user, and its words. Call that within a transaction. */
export function createUserUpdate(database: Database) {
  const prepared = rememberStatements(database)

  return (before: UserRow, after: UserRow): void => {
    const { id, name, email, passwordDigest, updatedAt } = after
    const changed = new Map<string, string | null>()
    if (name !== before.name) changed.set('name', name).set('name_lower', foldCase(name))
    if (email !== before.email) changed.set('email', email)
    if (passwordDigest !== before.passwordDigest) changed.set('password_digest', passwordDigest)
    if (changed.has('name') || changed.has('email')) changed.set('words', wordsOfUser(after))
    changed.set('updated_at', updatedAt)
    prepared(updateSql([...changed.keys()])).run(...changed.values(), id)
  }
}
