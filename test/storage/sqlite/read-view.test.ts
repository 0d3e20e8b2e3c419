import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
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
  database.pragma('journal_mode = WAL')
  database.exec('CREATE TABLE items (id INTEGER PRIMARY KEY)')
  const count = database.prepare<[], number>('SELECT count(*) FROM items').pluck()
  const view = createReadView(database)
  return {
    database,
    other,
    view,
    writes: createWriteQueue(database, view),
    count: () => view.read(() => count.get()),
    add: (to: Database) => to.exec('INSERT INTO items DEFAULT VALUES'),
  }
}

test('reads of one turn see one state, and those of the next turn see the writes of others since then', async () => {
  const { other, count, add } = open()
  expect(count()).toBe(0)
  add(other)
  expect(count()).toBe(0)
  await nextTurn()
  expect(count()).toBe(1)
})

test('a request that arrives after a view began is not read in this view', async () => {
  const { other, count, add } = open()
  await nextTurn()
  // All ready events are handled, so this view is open when the event loop polls for new ones.
  expect(count()).toBe(0)
  add(other)
  const arrival = stat('.')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ARRIVAL_MS)
  await arrival
  expect(count()).toBe(1)
})

test('reads after end() see what others wrote in this turn', () => {
  const { other, view, count, add } = open()
  expect(count()).toBe(0)
  add(other)
  view.end()
  expect(count()).toBe(1)
})

test('a write in the same turn succeeds, and the reads after it see it', async () => {
  const { database, writes, count, add } = open()
  expect(count()).toBe(0)
  await writes.run(() => add(database))
  expect(count()).toBe(1)
})

test('a write sees what others wrote after the view began', async () => {
  const { database, other, writes, count, add } = open()
  expect(count()).toBe(0)
  add(other)
  const found = database.prepare('SELECT count(*) FROM items').pluck()
  expect(await writes.run(() => found.get())).toBe(1)
})

test('a query that throws leaves the view usable', async () => {
  const { view, count } = open()
  const failing = () =>
    view.read(() => {
      throw new Error('no')
    })
  expect(failing).toThrow('no')
  expect(count()).toBe(0)
  await nextTurn()
  expect(count()).toBe(0)
})

test('no view delays the checkpoint of another process beyond its turn', async () => {
  const { database, other, count, add } = open()
  add(database)
  expect(count()).toBe(1)
  add(other)
  const truncated = () => other.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0
  expect(truncated()).toBe(false)
  await nextTurn()
  expect(truncated()).toBe(true)
})

test('a database that is closed within the turn is left alone', async () => {
  const { database, view, count } = open()
  count()
  view.end()
  database.close()
  await nextTurn()
})
