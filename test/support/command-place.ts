import { join } from 'node:path'
import { type DatabaseOptions, makeDatabase } from './databases.ts'
import { temporaryFolder } from './open-test-app.ts'
import { runCommand } from './run-command.ts'

export type CommandPlace = ReturnType<typeof openPlace>

/** A folder to run commands in, with the database of a service that is not running. Its `file` is for a copy. */
export function openPlace(database?: DatabaseOptions) {
  const cwd = temporaryFolder()
  // Where commands find it without DATABASE_URL.
  const path = join(cwd, 'data', 'users.db')
  if (database !== undefined) makeDatabase(path, database)
  const run = (...args: readonly string[]) => runCommand({ cwd, args })
  return { cwd, path, file: join(cwd, 'copy.db'), run }
}
