import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeBanStore } from '../../contracts/ban-store-contract.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { openSqliteStored } from '../../support/open-stored.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { selectRows } from '../../support/sql.ts'

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
