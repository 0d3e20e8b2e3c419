import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, onTestFinished, test } from 'vitest'
import { limitWal } from '../../../src/storage/sqlite/limit-wal.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { until } from '../../support/until.ts'

const MAX_PAGES = 100

/** Three connections, of which one always has a view of the database that is at least 20 ms old. */
const READ_WITHOUT_PAUSE = `
  const { parentPort, workerData } = require('node:worker_threads')
  const Database = require(workerData.driver)
  const open = () => new Database(workerData.path, { readonly: true, timeout: 5000 })
  const readers = [open(), open(), open()]
  const begin = reader => reader.exec('BEGIN; SELECT count(*) FROM users')
  begin(readers[1])
  begin(readers[2])
  parentPort.postMessage('reads')
  setInterval(() => {
    const [free, oldest, newest] = readers
    begin(free)
    oldest.exec('COMMIT')
    readers.splice(0, 3, oldest, newest, free)
  }, 20)`

const DRIVER = process.versions.node.startsWith('20.') ? 'better-sqlite3-node-20' : 'better-sqlite3'

async function openWithReaders(): Promise<Database> {
  const path = join(temporaryFolder(), 'users.db')
  const database = await openSqlite({ path, now: Date.now })
  const driver = createRequire(import.meta.url).resolve(DRIVER)
  const readers = new Worker(READ_WITHOUT_PAUSE, { eval: true, workerData: { driver, path } })
  onTestFinished(async () => {
    await readers.terminate()
    database.close()
  })
  await once(readers, 'message')
  return database
}

/** How often the WAL was started again: https://www.sqlite.org/fileformat.html#wal_file_format */
function walStarts({ name }: Database): number {
  return readFileSync(`${name}-wal`).readUInt32BE(12)
}

test('limitWal starts the WAL again while others read without a pause', async () => {
  const database = await openWithReaders()
  const limit = limitWal(database, { maxPages: MAX_PAGES, everyMs: 20 })
  onTestFinished(limit.end)
  const add = database.prepare(`INSERT INTO bans VALUES ('rule', ?, 1, 1)`)
  const starts = walStarts(database)
  let key = 0
  await until(() => {
    add.run(`${key++}`)
    return walStarts(database) > starts
  }, 1)
  // The migrations have left pages too.
  expect(key).toBeGreaterThan(MAX_PAGES / 10)
})

test('limitWal leaves a short WAL alone, and writes do not wait for locks afterwards', async () => {
  const database = await openWithReaders()
  const limit = limitWal(database, { maxPages: MAX_PAGES, everyMs: 5 })
  onTestFinished(limit.end)
  const starts = walStarts(database)
  database.exec(`INSERT INTO bans VALUES ('rule', 'key', 1, 1)`)
  await new Promise(resolve => setTimeout(resolve, 50))
  database.exec(`INSERT INTO bans VALUES ('rule', 'other', 1, 1)`)
  expect(walStarts(database)).toBe(starts)
  expect(database.pragma('busy_timeout', { simple: true })).toBe(0)
})

test('limitWal tries again after a long read, as that of a backup, was in its way', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const database = await openSqlite({ path, now: Date.now })
  const reader = new Database(path, { readonly: true })
  onTestFinished(() => {
    reader.close()
    database.close()
  })
  const limit = limitWal(database, { maxPages: 10, everyMs: 5 })
  onTestFinished(limit.end)
  const add = database.prepare(`INSERT INTO bans VALUES ('rule', ?, 1, 1)`)
  reader.exec('BEGIN; SELECT count(*) FROM bans')
  const starts = walStarts(database)
  let key = 0
  for (; key < 100; key++) {
    add.run(`${key}`)
    await new Promise(setImmediate)
  }
  expect(walStarts(database)).toBe(starts)
  reader.exec('COMMIT')
  await until(() => {
    add.run(`${key++}`)
    return walStarts(database) > starts
  }, 5)
})
