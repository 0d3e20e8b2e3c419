import { join } from 'node:path'
import { type DatabaseOptions, makeDatabase } from '../faults/databases.ts'
import { temporaryFolder } from './open-test-app.ts'
import { type FinishedProcess, runCommand } from './run-command.ts'

export interface CommandPlace {
  readonly cwd: string
  /** Of the database; commands find it without DATABASE_URL. */
  readonly path: string
  /** Of `copy.db`, beside it. */
  readonly file: string
  run(...args: readonly string[]): Promise<FinishedProcess>
}

/** A folder to run commands in, with the database of a service that is not running. */
export function openPlace(database?: DatabaseOptions): CommandPlace {
  const cwd = temporaryFolder()
  const path = join(cwd, 'data', 'users.db')
  if (database !== undefined) makeDatabase(path, database)
  return { cwd, path, file: join(cwd, 'copy.db'), run: (...args) => runCommand({ cwd, args }) }
}
