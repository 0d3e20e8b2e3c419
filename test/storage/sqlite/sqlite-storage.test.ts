import { renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createUser } from '../../support/create-user.ts'
import { execute } from '../../support/databases.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { CHECKPOINT, openSqliteImportStore } from '../../support/import-users.ts'
import { newSqlitePath, openSqliteStored } from '../../support/stored.ts'
import { untilPasses } from '../../support/until.ts'
import { ALL } from '../../support/user-scan.ts'

test('batches of an import become larger, and small for five seconds after another process has written', async () => {
  const clock = createFakeClock()
  const { store, sql } = await openSqliteImportStore(clock.now)
  const sizes: number[] = [store.batchRows()]
  const importFor = async (ms: number) => {
    const users = Array.from({ length: 500 }, (_, nth) => ({ name: 'Ann', email: `${nth}@x.co` }))
    const checkpointAfter = () => {
      clock.advance(ms)
      return CHECKPOINT
    }
    await store.write({ users, onConflict: 'skip', checkpointAfter })
    sizes.push(store.batchRows())
  }
  await importFor(100)
  await importFor(1)
  await sql(`UPDATE users SET name = 'Anna' WHERE id = 1`)
  await importFor(20)
  await importFor(4000)
  clock.advance(1000)
  await importFor(100)
  expect(sizes).toEqual([250, 2000, 20_000, 625, 250, 2000])
})

test('fileBytes are the sizes of the file and of its WAL, found through links, while there is a file', async () => {
  const path = newSqlitePath()
  const link = join(path, '..', 'link.db')
  symlinkSync('users.db', link)
  const { users, report, close } = await openSqliteStored(link)
  await createUser(users, { name: 'Ann', email: 'ann@example.com', passwordDigest: null })
  const wal = statSync(`${path}-wal`).size
  expect(wal).toBeGreaterThan(0)
  expect(report().fileBytes).toEqual({ database: statSync(path).size, wal })
  await close()
  expect(report().fileBytes).toEqual({ database: statSync(path).size, wal: 0 })
  renameSync(path, `${path}.moved`)
  expect(report()).not.toHaveProperty('fileBytes')
  const inMemory = await openSqliteStored(':memory:')
  expect(inMemory.report()).toEqual({ engine: 'sqlite', waitingWrites: 0 })
})

test('an index of words that cannot be built is tried again, until it can', async () => {
  const path = newSqlitePath()
  const first = await openSqliteStored(path)
  await createUser(first.users, { name: 'Ann', email: 'ann@example.com', passwordDigest: null })
  await first.close()
  execute(path, 'DROP TABLE users_words; UPDATE users_words_state SET indexed_through = 0')
  const seen: string[] = []
  const { users } = await openSqliteStored(path, {
    onWarning: message => seen.push(message),
    onIndexing: ({ isComplete }) => seen.push(isComplete ? 'complete' : 'indexing'),
  })
  const search = { ...ALL, words: ['ann'] }
  await untilPasses(async () => expect(seen).toHaveLength(1))
  await expect(users.list(search)).rejects.toMatchObject({ code: 'words_unavailable' })
  execute(
    path,
    `CREATE VIRTUAL TABLE users_words
      USING fts5(prefixes, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii')`,
  )
  await untilPasses(async () => expect((await users.list(search)).total).toBe(1))
  expect(seen).toEqual(['index of words cannot be built', 'complete'])
})
