import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

/** Enough time for another thread to do a little. If it does not, the test still passes but shows nothing. */
const ARRIVAL_MS = 50

function open() {
  const path = join(temporaryFolder(), 'view.db')
  const database = new Database(path, { timeout: 0 })
  const other = new Database(path, { timeout: 0 })
  onTestFinished(() => {
    database.close()
    other.close()
  })
  database.exec('PRAGMA journal_mode = WAL; CREATE TABLE items (id INTEGER PRIMARY KEY)')
  const found = database.prepare<[], number>('SELECT count(*) FROM items').pluck()
  const view = createReadView(database)
  const add = () => other.exec('INSERT INTO items DEFAULT VALUES')
  return { other, view, add, count: () => view.read(() => found.get()) }
}

test('reads of one turn see one state; a request that arrives later sees what others have written', async () => {
  const { count, add } = open()
  await nextTurn()
  // All ready events are handled, so this view is open when the event loop polls for new ones.
  expect(await count()).toBe(0)
  add()
  expect(await count()).toBe(0)
  const arrival = stat('.')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ARRIVAL_MS)
  await arrival
  expect(await count()).toBe(1)
})

test('no view delays the checkpoint of another process beyond its turn', async () => {
  const { other, count, add } = open()
  add()
  expect(await count()).toBe(1)
  add()
  const truncated = () => other.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0
  expect(truncated()).toBe(false)
  await nextTurn()
  expect(truncated()).toBe(true)
})
