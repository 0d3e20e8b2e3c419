import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

const MAX_BATCH_WRITES = 250

test('WriteQueue rejects all writes of a failed commit, stores none of them and continues', async () => {
  const { writes, database, add, stored, committed } = await openQueue()
  // A deferred constraint is checked only by COMMIT.
  const addOrphan = database.prepare(`INSERT INTO children (item) VALUES ('nobody')`)
  const results = await Promise.allSettled([
    writes.run(() => add('before')),
    writes.run(() => addOrphan.run()),
    writes.run(() => add('after')),
  ])
  const reason = expect.objectContaining({ code: 'SQLITE_CONSTRAINT_FOREIGNKEY' })
  expect(results).toEqual(Array(3).fill({ status: 'rejected', reason }))
  expect([stored(), committed()]).toEqual([[], 0])
  expect(await writes.run(() => add('again'))).toBe('again')
  expect([stored(), committed()]).toEqual([['again'], 1])
})

test.each<{ disk: string; rows: string }>([
  // SQLite rolls back the whole transaction for the first error and only the statement for the second.
  { disk: 'full within a row', rows: 'VALUES (@text)' },
  { disk: 'full between rows', rows: `VALUES ('row 1 ' || @text), ('row 2 ' || @text)` },
])(
  'WriteQueue on a disk $disk throws storage_unavailable and loses no write silently',
  async ({ rows }) => {
    const { writes, database, add, stored, committed } = await openQueue()
    const insert = database.prepare(`INSERT INTO items (text) ${rows}`)
    const addBig = (name: string) => () => {
      insert.run({ text: name.padEnd(40_000, '.') })
      return name
    }
    const pages = Number(database.pragma('page_count', { simple: true }))
    database.pragma(`max_page_count = ${pages + 2}`)
    const results = await Promise.allSettled([
      writes.run(() => add('before')),
      writes.run(addBig('big 1')),
      writes.run(() => add('between')),
      writes.run(addBig('big 2')),
      writes.run(() => add('after')),
    ])
    const refused = {
      status: 'rejected',
      reason: expect.objectContaining({ code: 'storage_unavailable' }),
    }
    expect([results[1], results[3]]).toEqual([refused, refused])
    const answered = results.flatMap(result => (result.status === 'fulfilled' ? result.value : []))
    expect(results).toHaveLength(5)
    expect(stored()).toEqual(answered)
    expect(committed()).toBe(answered.length)
    expect(await writes.run(() => add('still small'))).toBe('still small')
    database.pragma('max_page_count = 1000')
    expect(await writes.run(addBig('big 3'))).toBe('big 3')
    expect(stored().some(text => String(text).includes('big 3'))).toBe(true)
  },
)

test('WriteQueue runs writes in the order in which they came, in batches with turns of the event loop between them', async () => {
  const { writes, add, stored, countsUntil } = await openQueue()
  const texts = Array.from({ length: 3 * MAX_BATCH_WRITES }, (_, index) => `${index}`)
  const written = Promise.all(texts.map(text => writes.run(() => add(text))))
  expect(await countsUntil(written)).toEqual([0, 1, 2].map(batches => batches * MAX_BATCH_WRITES))
  expect([await written, stored()]).toEqual([texts, texts])
})

test('WriteQueue takes as many writes into a batch as their sizes allow, and at least one', async () => {
  const { writes, add, countsUntil } = await openQueue()
  const sizes = [MAX_BATCH_WRITES - 1, 1, 2, MAX_BATCH_WRITES + 1, MAX_BATCH_WRITES]
  const written = sizes.map((size, index) => writes.run(() => add(`${index}`), { size }))
  expect(writes.waiting()).toBe(sizes.reduce((sum, size) => sum + size))
  expect(await countsUntil(Promise.all(written))).toEqual([0, 2, 3, 4])
  expect(writes.waiting()).toBe(0)
})

async function openQueue() {
  const path = join(temporaryFolder(), 'items.db')
  const database = await openSqlite({ path, now: Date.now })
  database.exec(`
    CREATE TABLE items (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    CREATE TABLE children (
      item TEXT REFERENCES items (text) DEFERRABLE INITIALLY DEFERRED
    )`)
  /** A second connection to the same file, which sees only commits. */
  const other = new Database(path, { timeout: 0 })
  onTestFinished(() => {
    other.close()
    database.close()
  })
  const insert = database.prepare('INSERT INTO items (text) VALUES (?)')
  const select = other.prepare('SELECT text FROM items ORDER BY id').pluck()
  let committed = 0
  return {
    writes: createWriteQueue(database, createReadView(database), {
      onCommit: commit => {
        committed += commit.writes
      },
    }),
    /** How many writes were committed. */
    committed: () => committed,
    database,
    /** Writes an item and returns its text. */
    add: (text: string) => {
      insert.run(text)
      return text
    },
    /** The committed texts, in the order of their writes. */
    stored: () => select.all(),
    /** The numbers of committed texts in the turns of the event loop until `work` is over. */
    countsUntil: async (work: Promise<unknown>) => {
      const counts = new Set<number>()
      let isOver = false
      void work.finally(() => {
        isOver = true
      })
      for (; !isOver; await nextTurn()) counts.add(select.all().length)
      return [...counts]
    },
  }
}
