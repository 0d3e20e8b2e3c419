import { renameSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createSqliteStorage } from '../../../src/storage/sqlite/open-sqlite-storage.ts'
import { createUser } from '../../support/create-user.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { CHECKPOINT, openSqliteImportStore } from '../../support/import-users.ts'
import { newSqlitePath, openEngine, openSqliteStored } from '../../support/stored.ts'
import { ALL, idsOf } from '../../support/user-scan.ts'

const newUser = (name: string) => ({ name, email: `${name}@example.com`, passwordDigest: null })

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
  await createUser(users, newUser('Ann'))
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

test('writes that fail after their change leave the words as they were', async () => {
  const database = await openSqlite({ path: ':memory:', now: Date.now })
  const open = async (options: Parameters<typeof createSqliteStorage>[1]) =>
    createSqliteStorage(database, options)
  const { users, imports } = await openEngine({ open })
  const find = async (word: string) => idsOf((await users.list({ ...ALL, words: [word] })).json)
  const failing = (name: string, email: string) =>
    imports.write({
      users: [{ name, email }],
      onConflict: 'update',
      checkpointAfter: () => {
        throw new Error('no checkpoint')
      },
    })
  await expect(failing('Gone', 'gone@example.com')).rejects.toThrow('no checkpoint')
  expect((await createUser(users, newUser('Zoe'))).id).toBe(1)
  expect([await find('gone'), await find('zoe')]).toEqual([[], [1]])
  await expect(failing('Renamed', newUser('Zoe').email)).rejects.toThrow('no checkpoint')
  expect([await find('renamed'), await find('zoe')]).toEqual([[], [1]])
  // A batch that cannot be committed.
  database.exec(`CREATE TRIGGER full BEFORE UPDATE ON users_summary WHEN (SELECT count(*) FROM users) > 2
    BEGIN SELECT RAISE(ROLLBACK, 'full'); END`)
  const batch = await Promise.allSettled(
    ['Ann', 'Bea'].map(name => createUser(users, newUser(name))),
  )
  expect(batch.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  database.exec('DROP TRIGGER full')
  expect((await createUser(users, newUser('Cid'))).id).toBe(2)
  expect([await find('ann'), await find('bea'), await find('cid')]).toEqual([[], [], [2]])
})
