import { renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createUser } from '../../support/create-user.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { CHECKPOINT, openSqliteImportStore } from '../../support/import-users.ts'
import { newSqlitePath, openSqliteStored } from '../../support/stored.ts'

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
