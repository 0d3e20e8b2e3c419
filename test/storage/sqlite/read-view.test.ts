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
  const [database, other] = [1, 2].map(() => new Database(path, { timeout: 0 })) as [
    Database,
    Database,
  ]
  onTestFinished(() => {
    database.close()
    other.close()
  })
  database.pragma('journal_mode = WAL')
  database.exec('CREATE TABLE items (id INTEGER PRIMARY KEY)')
  const found = database.prepare<[], number>('SELECT count(*) FROM items').pluck()
  const view = createReadView(database)
  return {
    ...{ other, view, found, writes: createWriteQueue(database, view) },
    count: () => view.read(() => found.get()),
    add: (to = database) => to.exec('INSERT INTO items DEFAULT VALUES'),
  }
}

test('reads of one turn see one state; those after end() or of the next turn see what others wrote', async () => {
  const { other, view, count, add } = open()
  expect(count()).toBe(0)
  add(other)
  expect(count()).toBe(0)
  view.end()
  expect(count()).toBe(1)
  add(other)
  expect(count()).toBe(1)
  await nextTurn()
  expect(count()).toBe(2)
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

test('a write in the same turn succeeds, sees what others wrote, and the reads after it see it', async () => {
  const { other, writes, found, count, add } = open()
  expect(count()).toBe(0)
  add(other)
  expect(await writes.run(() => add() && found.get())).toBe(2)
  expect(count()).toBe(2)
})

test('a query that throws leaves the view usable', async () => {
  const { view, count } = open()
  const failing = () => {
    throw new Error('no')
  }
  expect(() => view.read(failing)).toThrow('no')
  expect(count()).toBe(0)
  await nextTurn()
  expect(count()).toBe(0)
})

test('no view delays the checkpoint of another process beyond its turn', async () => {
  const { other, count, add } = open()
  add()
  expect(count()).toBe(1)
  add(other)
  const truncated = () => other.pragma('wal_checkpoint(TRUNCATE)', { simple: true }) === 0
  expect(truncated()).toBe(false)
  await nextTurn()
  expect(truncated()).toBe(true)
})
