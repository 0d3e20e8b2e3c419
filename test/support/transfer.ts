import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { type InputFlags, inputFormatOf } from '../../src/cli/transfer/format.ts'
import { rowsIn } from './databases.ts'
import { temporaryFolder } from './open-test-app.ts'
import { runCommand, stderrOf, stdoutOf } from './run-command.ts'
import { type FinishedProcess, linesOf } from './spawn-service.ts'

/** `import` in a folder whose database is `data/users.db`, without its line about columns. */
export function importing(cwd: string, ...args: string[]): Promise<FinishedProcess> {
  return importingFrom('', cwd, ...args)
}

/** The same, with this on standard input. */
export async function importingFrom(
  input: string | Buffer,
  cwd: string,
  ...args: string[]
): Promise<FinishedProcess> {
  const finished = await runCommand({ cwd, args: ['import', ...args], input })
  return { ...finished, stderr: finished.stderr.replace(/^columns: .+\n/m, '') }
}

export function exporting(cwd: string, ...args: string[]): Promise<FinishedProcess> {
  return runCommand({ cwd, args: ['export', ...args] })
}

/** How a file is read. Lines about its columns are dropped. */
export function readerOptions(file: string, flags: InputFlags = {}) {
  return { ...inputFormatOf(file, flags), file, say: () => {}, taken: [] }
}

/** A line for each row; a text is a line as it is. */
export function ndjson(rows: readonly unknown[]): string {
  return rows.map(row => `${typeof row === 'string' ? row : JSON.stringify(row)}\n`).join('')
}

/** A new folder with a file in it. */
export function folderWith(content: string | Buffer, file = 'users.ndjson'): string {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, file), content)
  return cwd
}

/** The users after an import of a file that takes every row. */
export async function takenUsers(content: string | Buffer, file: string, ...args: string[]) {
  const cwd = folderWith(content, file)
  await stdoutOf(importing(cwd, file, ...args))
  return usersIn(cwd)
}

/** What an import says that ends before its first row. */
export async function refusalOf(content: string | Buffer, file: string, ...args: string[]) {
  const cwd = folderWith(content, file)
  const said = await stderrOf(importing(cwd, file, ...args))
  expect(usersIn(cwd)).toEqual([])
  return said
}

export function manyRows(count: number): { name: string; email: string }[] {
  return Array.from({ length: count }, (_, index) => ({
    name: `User ${index}`,
    email: `user${index}@example.com`,
  }))
}

const SELECT_USERS =
  'SELECT id, name, email, password_digest, created_at, updated_at FROM users ORDER BY id'

/** All users as stored in the database, by id; none without a database. */
export function usersIn(cwd: string): Record<string, unknown>[] {
  const path = join(cwd, 'data', 'users.db')
  return existsSync(path) ? rowsIn(path, SELECT_USERS) : []
}

export function namesIn(cwd: string): unknown[] {
  return usersIn(cwd).map(({ name }) => name)
}

/** Number of users; 0 without a database. */
export function countIn(cwd: string): number {
  try {
    return usersIn(cwd).length
  } catch {
    return 0
  }
}

export function rejectsIn(cwd: string): Record<string, unknown>[] {
  return linesOf(readFileSync(join(cwd, 'rejects.ndjson'), 'utf8'))
}
