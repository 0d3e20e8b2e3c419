import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeBanStore } from '../../contracts/ban-store-contract.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { openSqliteStored } from '../../support/open-stored.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { executeSql, selectRows } from '../../support/sql.ts'

describeBanStore({
  name: 'SQLite',
  open: async now => {
    const path = join(temporaryFolder(), 'users.db')
    const [one, two] = [
      await openSqliteStored(path, { now }),
      await openSqliteStored(path, { now }),
    ]
    return { store: one.bans, other: two.bans }
  },
})

test('saving a ban deletes some of those that have ended, until none is left', async () => {
  const clock = createFakeClock()
  const path = join(temporaryFolder(), 'users.db')
  const { bans: store } = await openSqliteStored(path, { now: clock.now })
  const save = (clientKey: string) =>
    store.save({ rule: 'login', clientKey, endsAt: clock.now() + 1000, lastsMs: 1000 })
  await Promise.all(Array.from({ length: 25 }, (_, index) => save(`client ${index}`)))
  clock.advance(1000)
  const left: number[] = []
  for (const name of ['ann', 'bob', 'eve', 'ann']) {
    await save(name)
    left.push((await selectRows(path, 'SELECT 1 FROM bans')).length)
  }
  expect(left).toEqual([16, 7, 3, 3])
})

test.each([
  [
    'an INSERT of an older release',
    `INSERT INTO bans (rule, client_key, ends_at) VALUES ('a', 'b', 1)`,
  ],
  ['an UPDATE', 'UPDATE bans SET ends_at = ends_at + 1'],
  ['a DELETE', 'DELETE FROM bans'],
])('%s changes the revision, and what changes no ban does not', async (_, statement) => {
  const path = join(temporaryFolder(), 'users.db')
  const { bans: store } = await openSqliteStored(path)
  await store.save({ rule: 'login', clientKey: 'ann', endsAt: Date.now() + 1000, lastsMs: 1000 })
  const before = await store.revision()
  await executeSql(path, 'DELETE FROM bans WHERE false')
  expect(await store.revision()).toBe(before)
  await executeSql(path, statement)
  expect(await store.revision()).not.toBe(before)
})

test('saving a ban deletes the marks of processes that are long gone', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const stores = [await openSqliteStored(path), await openSqliteStored(path)]
  for (const [index, { bans }] of stores.entries()) {
    await executeSql(path, 'UPDATE ban_changes SET changed_at = changed_at - 2 * 86400')
    await bans.revision()
    await bans.save({
      rule: 'login',
      clientKey: `${index}`,
      endsAt: Date.now() + 1e3,
      lastsMs: 1e3,
    })
  }
  expect(await selectRows(path, 'SELECT 1 FROM bans')).toHaveLength(2)
  expect(await selectRows(path, `SELECT 1 FROM ban_changes WHERE writer <> ''`)).toHaveLength(1)
})

test('the revision can be read with the marks of a hundred thousand processes', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const { bans: store } = await openSqliteStored(path)
  await executeSql(
    path,
    `DROP TRIGGER ban_changes_inserted;
    INSERT INTO ban_changes (writer, mark)
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers LIMIT 100000)
    SELECT n, 281474976710655 FROM numbers`,
  )
  const before = await store.revision()
  await executeSql(path, `INSERT INTO bans (rule, client_key, ends_at) VALUES ('a', 'b', 1)`)
  expect(await store.revision()).not.toBe(before)
})

test('processes that never ask for the revision, such as commands, share one mark', async () => {
  const path = join(temporaryFolder(), 'users.db')
  const { bans: store } = await openSqliteStored(path)
  let before = await store.revision()
  for (const clientKey of ['ann', 'bob']) {
    const { bans } = await openSqliteStored(path)
    await bans.save({ rule: 'login', clientKey, endsAt: Date.now() + 1000, lastsMs: 1000 })
    expect(await store.revision()).not.toBe(before)
    before = await store.revision()
  }
  expect(await selectRows(path, 'SELECT writer FROM ban_changes')).toEqual([{ writer: '' }])
})
