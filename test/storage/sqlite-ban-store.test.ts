import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { createReadView } from '../../src/storage/read-view.ts'
import { openSqlite } from '../../src/storage/sqlite.ts'
import { createSqliteBanStore } from '../../src/storage/sqlite-ban-store.ts'
import { createWriteQueue } from '../../src/storage/write-queue.ts'
import { describeBanStore } from '../contracts/ban-store-contract.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { temporaryFolder } from '../support/open-test-app.ts'

async function openStore(path: string, now: () => number) {
  const database = await openSqlite({ path, now })
  onTestFinished(() => {
    database.close()
  })
  const writes = createWriteQueue(database, createReadView(database))
  return { database, store: createSqliteBanStore({ database, writes, now }) }
}

describeBanStore({
  name: 'SQLite',
  open: async now => {
    const path = join(temporaryFolder(), 'users.db')
    const { store } = await openStore(path, now)
    const { store: other } = await openStore(path, now)
    return { store, other }
  },
})

test('a ban that is saved takes away the rows of those that have ended', async () => {
  const clock = createFakeClock()
  const { database, store } = await openStore(join(temporaryFolder(), 'users.db'), clock.now)
  const count = database.prepare('SELECT count(*) FROM bans').pluck()
  await store.save({ rule: 'login', clientKey: 'ann', endsAt: clock.now() + 1000 })
  clock.advance(1000)
  expect(count.get()).toBe(1)
  await store.save({ rule: 'login', clientKey: 'bob', endsAt: clock.now() + 1000 })
  expect(count.get()).toBe(1)
})

test('writes of other processes to other tables leave the revision as it is', async () => {
  const clock = createFakeClock()
  const path = join(temporaryFolder(), 'users.db')
  const { store } = await openStore(path, clock.now)
  const { database } = await openStore(path, clock.now)
  const before = store.revision()
  const insert = `INSERT INTO idempotency_keys (key_hash, user_id, expires_at) VALUES (?, 1, 1)`
  database.prepare(insert).run(Buffer.alloc(32))
  expect(store.revision()).toBe(before)
})
