import { readFileSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { connect } from '../../../src/storage/sqlite/connect.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { emailsIn, execute, filesOf, makeDatabase } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const OLD_USERS = 7

const NEW_USERS = 5

/** Connects to a database that is replaced between opening its file and `lock`. */
async function connectWhileReplaced(lock: (database: Database) => void, isServed = false) {
  const folder = temporaryFolder()
  const path = join(folder, 'users.db')
  const [kept, other] = [join(folder, 'kept.db'), join(folder, 'other.db')]
  makeDatabase(path, { users: OLD_USERS })
  makeDatabase(other, { users: NEW_USERS })
  const before = readFileSync(path)
  let attempts = 0
  const database = await connect(path, {
    timeout: 0,
    lock: async opened => {
      if (attempts++ === 0) {
        renameSync(path, kept)
        renameSync(other, path)
        if (isServed) await serve(path)
      }
      lock(opened)
    },
  })
  onTestFinished(() => void database.close())
  return { path, attempts, database, isOldAsBefore: readFileSync(kept).equals(before) }
}

/** Leaves the last user in the WAL for as long as the test runs. */
async function serve(path: string): Promise<void> {
  const lock = (database: Database) => {
    database.pragma('journal_mode = WAL')
    database.exec(`UPDATE users SET email = 'in-wal@x.co' WHERE id = ${NEW_USERS}`)
  }
  const service = await connect(path, { timeout: 0, lock })
  onTestFinished(() => void service.close())
}

test.each([
  ['reads', 'BEGIN; SELECT 1 FROM users; COMMIT'],
  ['leaves', 'PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; COMMIT'],
  ['switches to WAL', 'PRAGMA journal_mode = WAL; PRAGMA schema_version'],
  ['writes', `UPDATE users SET name = 'Other'`],
])(
  'connect leaves a file that was replaced before it had a lock, and takes the new one: %s',
  async (_, sql) => {
    const replaced = await connectWhileReplaced(opened => void opened.exec(sql))
    expect(replaced).toMatchObject({ attempts: 2, isOldAsBefore: true })
    const count = replaced.database.prepare('SELECT count(*) FROM users').pluck()
    expect(count.get()).toBe(NEW_USERS)
  },
)

test.each([
  ['reads', 'BEGIN; SELECT 1 FROM users; COMMIT'],
  ['switches to WAL', 'PRAGMA journal_mode = WAL; PRAGMA schema_version'],
])(
  'connect to a replaced file neither changes nor removes the WAL of the new one: %s',
  async (_, sql) => {
    const lock = (opened: Database) => void opened.exec(sql)
    const { path, isOldAsBefore, database } = await connectWhileReplaced(lock, true)
    expect(isOldAsBefore).toBe(true)
    expect(filesOf(path)).toContain('users.db-wal')
    const select = database.prepare('SELECT email FROM users WHERE id = ?').pluck()
    expect(select.get(NEW_USERS)).toBe('in-wal@x.co')
    expect(emailsIn(path)).toHaveLength(NEW_USERS)
  },
)

test('connect throws what `lock` throws if the file is still the same', async () => {
  const path = join(temporaryFolder(), 'users.db')
  execute(path, 'CREATE TABLE users (id INTEGER)')
  const refused = connect(path, { timeout: 0, lock: opened => void opened.exec('SELECT oops') })
  await expect(refused).rejects.toThrow('no such column: oops')
  await expect(connect(join(path, 'none'), { timeout: 0, lock: () => {} })).rejects.toThrow()
})
