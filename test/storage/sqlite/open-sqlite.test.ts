import { chmodSync, existsSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { copyHalfWritten, PAGE_BYTES } from '../../support/damage.ts'
import { makeDatabase, modeOf } from '../../support/databases.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const newPath = () => join(temporaryFolder(), 'users.db')

test('openSqlite opens in WAL mode, with synchronous FULL and without waiting for locks', async () => {
  const database = await open(newPath())
  const settingOf = (pragma: string) => database.pragma(pragma, { simple: true })
  expect(['journal_mode', 'synchronous', 'busy_timeout'].map(settingOf)).toEqual(['wal', 2, 0])
})

test('openSqlite creates each missing folder with mode 700, and keeps the modes of what is there', async () => {
  const root = temporaryFolder()
  await open(join(root, 'made', 'too', 'users.db'))
  expect([join(root, 'made'), join(root, 'made', 'too')].map(modeOf)).toEqual([0o700, 0o700])
  const there = newPath()
  writeFileSync(there, '')
  chmodSync(join(there, '..'), 0o751)
  chmodSync(there, 0o640)
  await open(there)
  expect([join(there, '..'), there, `${there}-wal`].map(modeOf)).toEqual([0o751, 0o640, 0o640])
})

test.each([
  { what: 'of a database with users', users: ['a@x.co'], isFirstPageThere: true },
  { what: 'of a first start without its first page', users: [], isFirstPageThere: false },
])('openSqlite undoes the unfinished write $what', async ({ users, isFirstPageThere }) => {
  const path = newPath()
  await leaveHalfWritten(path, users)
  if (!isFirstPageThere) writeFileSync(path, readFileSync(path).fill(0, 0, PAGE_BYTES))
  const database = await open(path)
  expect(emailsOf(database)).toEqual(users)
  expect(database.pragma('integrity_check', { simple: true })).toBe('ok')
  expect(existsSync(`${path}-journal`)).toBe(false)
})

test('openSqlite rejects a database that was cut short while it has writes in its WAL', async () => {
  const path = newPath()
  makeDatabase(path, { users: 1000 })
  insertUser(await open(path), 'last@x.co')
  truncateSync(path, 20 * PAGE_BYTES)
  const before = readFileSync(path, 'latin1')
  await expect(open(path)).rejects.toThrow('it is damaged: restore it from a backup')
  expect(readFileSync(path, 'latin1')).toBe(before)
})

async function open(path: string): Promise<Database> {
  const database = await openSqlite({ path, now: Date.now })
  onTestFinished(() => void database.close())
  return database
}

/** A database in the middle of a write that does not fit into the cache, and the journal that undoes it. */
async function leaveHalfWritten(path: string, emails: readonly string[]): Promise<void> {
  const whole = `${path}.whole`
  if (emails.length > 0) {
    const database = await openSqlite({ path: whole, now: Date.now })
    for (const email of emails) insertUser(database, email)
    database.close()
  }
  copyHalfWritten(whole, path)
}

function insertUser(database: Database, email: string): void {
  const columns = 'name, name_lower, email, created_at, updated_at'
  const time = new Date().toISOString()
  database
    .prepare(`INSERT INTO users (${columns}) VALUES ('Ann', 'ann', @email, @time, @time)`)
    .run({ email, time })
}

function emailsOf(database: Database): unknown[] {
  return database.prepare('SELECT email FROM users').pluck().all()
}
