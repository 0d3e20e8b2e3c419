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
  ['reads', 'BEGIN; SELECT 1 FROM users; COMMIT', true],
  ['leaves', 'PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE; COMMIT', false],
  ['switches to WAL', 'PRAGMA journal_mode = WAL; PRAGMA schema_version', true],
  ['writes', `UPDATE users SET name = 'Other'`, false],
])(
  'connect leaves a file that was replaced before it had a lock, and takes the new one as it is: %s',
  async (_, sql, canBeServed) => {
    for (const isServed of canBeServed ? [false, true] : [false]) {
      const lock = (opened: Database) => void opened.exec(sql)
      const { path, database, ...replaced } = await connectWhileReplaced(lock, isServed)
      expect(replaced).toEqual({ attempts: 2, isOldAsBefore: true })
      expect(database.prepare('SELECT count(*) FROM users').pluck().get()).toBe(NEW_USERS)
      if (!isServed) continue
      expect(filesOf(path)).toContain('users.db-wal')
      expect(emailsIn(path).at(-1)).toBe('in-wal@x.co')
    }
  },
)

test('connect throws what `lock` throws if the file is still the same', async () => {
  const path = join(temporaryFolder(), 'users.db')
  execute(path, 'CREATE TABLE users (id INTEGER)')
  const refused = connect(path, { timeout: 0, lock: opened => void opened.exec('SELECT oops') })
  await expect(refused).rejects.toThrow('no such column: oops')
  await expect(connect(join(path, 'none'), { timeout: 0, lock: () => {} })).rejects.toThrow()
})
