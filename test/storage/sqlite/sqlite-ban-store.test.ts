import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteBanStore } from '../../../src/storage/sqlite/sqlite-ban-store.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import { describeBanStore } from '../../contracts/ban-store-contract.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'

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

test('saving a ban deletes some of those that have ended, until none is left', async () => {
  const clock = createFakeClock()
  const { database, store } = await openStore(join(temporaryFolder(), 'users.db'), clock.now)
  const count = database.prepare('SELECT count(*) FROM bans').pluck()
  const save = (clientKey: string) =>
    store.save({ rule: 'login', clientKey, endsAt: clock.now() + 1000, lastsMs: 1000 })
  await Promise.all(Array.from({ length: 25 }, (_, index) => save(`client ${index}`)))
  clock.advance(1000)
  const left: unknown[] = []
  for (const name of ['ann', 'bob', 'eve', 'ann']) {
    await save(name)
    left.push(count.get())
  }
  expect(left).toEqual([16, 7, 3, 3])
})
