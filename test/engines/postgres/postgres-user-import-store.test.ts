import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  type Connections,
  createPostgresSharedStatements,
} from '../../../src/storage/postgres/postgres-connections.ts'
import {
  createPostgresUserImportStore,
  takeIds as takeIdsIn,
} from '../../../src/storage/postgres/postgres-user-import-store.ts'
import { openTrialImports } from '../../../src/storage/sqlite/sqlite-user-import-store.ts'
import { MAX_ID } from '../../../src/users/stored-user.ts'
import {
  CONFLICT_POLICIES,
  type ImportBatch,
  type ImportedUser,
  type ImportOutcome,
} from '../../../src/users/transfer/user-import-store.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import {
  CHECKPOINT,
  importUsers,
  openImportStore,
  openSqliteImportStore,
} from '../../support/import-users.ts'
import { connectTo, insertUser } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'

async function openStore(now: () => number) {
  const { databaseUrl, ...opened } = await openImportStore(now)
  return { ...opened, url: databaseUrl, connections: connectTo(databaseUrl) }
}

/** Few e-mails and ids, so that rows often meet. */
const rows: fc.Arbitrary<ImportedUser> = fc.record(
  {
    id: fc.integer({ min: 1, max: 9 }),
    name: fc.constantFrom('Ann', 'Bea'),
    email: fc.constantFrom(...'abcdeABC').map(letter => `${letter}@example.com`),
    passwordDigest: fc.constantFrom(null, '$1', '$2'),
    createdAt: fc.constantFrom('2020-02-29T00:00:00.000Z', '2030-01-01T00:00:00.000Z'),
    updatedAt: fc.constantFrom('2021-03-01T00:00:00.000Z', '2031-01-01T00:00:00.000Z'),
  },
  { requiredKeys: ['name', 'email'] },
)

const batches: fc.Arbitrary<ImportBatch> = fc.record({
  users: fc.array(rows, { maxLength: 12 }),
  onConflict: fc.constantFrom('update', ...CONFLICT_POLICIES),
  checkpointAfter: fc.constant(() => CHECKPOINT),
})

test('decides and numbers random batches as SQLite does, also in a dry run', async () => {
  const clock = createFakeClock()
  const { sql, store, users } = await openStore(clock.now)
  const sqlite = await openSqliteImportStore(clock.now)
  await fc.assert(
    fc.asyncProperty(fc.array(batches, { maxLength: 4 }), async all => {
      await sql('TRUNCATE users RESTART IDENTITY')
      await sqlite.sql('DELETE FROM users; DELETE FROM sqlite_sequence')
      const trials = await Promise.all(
        [store, sqlite.store].map(real => openTrialImports(real, clock.now)),
      )
      const tried: (readonly ImportOutcome[])[][] = [[], []]
      for (const batch of all) {
        clock.advance(1)
        for (const [index, trial] of trials.entries()) {
          tried[index]?.push(await trial.store.write(batch))
        }
      }
      const emails = [...'abcde'].map(letter => ({ email: `${letter}@example.com` }))
      const predicted = await Promise.all(trials.map(trial => trial.store.findUsers(emails)))
      for (const trial of trials) trial.close()
      clock.advance(-all.length)
      // Under `fail` only a dry run goes on behind a conflict.
      let hasConflict = false
      for (const [index, batch] of all.entries()) {
        clock.advance(1)
        const outcomes = await sqlite.store.write(batch)
        expect(await store.write(batch)).toEqual(outcomes)
        hasConflict ||= batch.onConflict === 'fail' && outcomes.some(each => each !== 'created')
        if (!hasConflict) for (const each of tried) expect(each[index]).toEqual(outcomes)
      }
      expect(tried[0]).toEqual(tried[1])
      if (!hasConflict) {
        const found = await sqlite.store.findUsers(emails)
        expect(predicted).toEqual([found, found])
      }
      expect(await users()).toEqual(await sqlite.users())
    }),
    { numRuns: 25, seed: 7 },
  )
})

describe('when another writer comes in between', () => {
  const insert = insertUser('bea@example.com', 'Bea')

  const remove = `DELETE FROM users WHERE email = 'bea@example.com'`

  test.each([
    ['fail', ['created', 'email_taken'], ['Ann', 'Bea']],
    ['skip', ['created', 'skipped', 'created'], ['Ann', 'Bea', 'Cid']],
    ['update', ['created', 'updated', 'created'], ['Ann', 'Beatrice', 'Cid']],
  ] as const)('with `%s` a batch is repeated as a whole', async (onConflict, outcomes, names) => {
    const { sql, connections, users } = await openStore(Date.now)
    let times = 0
    const store = createPostgresUserImportStore(
      disturbed(connections, 'INSERT INTO users (', async () => {
        times++
        if (times === 1) await sql(insert)
      }),
      Date.now,
    )
    const all = [ANN, { ...BEA, name: 'Beatrice' }, CID]
    expect(await importUsers(store, all, onConflict)).toEqual(outcomes)
    expect(times).toBe(2)
    expect((await users()).map(({ name }) => name).toSorted()).toEqual(names)
  })

  test('a user that it deletes is created', async () => {
    const { sql, connections, store, users } = await openStore(Date.now)
    await importUsers(store, [BEA])
    const disturbedStore = createPostgresUserImportStore(
      disturbed(connections, 'SELECT', () => sql(remove)),
      Date.now,
    )
    const both = [ANN, { ...BEA, name: 'Beatrice' }]
    expect(await importUsers(disturbedStore, both, 'skip')).toEqual(['created', 'created'])
    expect((await users()).map(({ name }) => name)).toEqual(['Ann', 'Beatrice'])
  })

  test('an id that it took, for a user that is gone, is not given out again', async () => {
    const { sql, connections, users } = await openStore(Date.now)
    const take = disturbed(connections, 'take_user_ids', () => sql(`${insert}; ${remove}`))
    const store = createPostgresUserImportStore(take, Date.now)
    const both = [ANN, { ...CID, id: 2 }]
    expect(await importUsers(store, both, 'skip')).toEqual(['created', 'skipped'])
    expect(await users()).toMatchObject([{ name: 'Ann', id: 2 }])
  })

  test('each time, write gives up with storage_unavailable', async () => {
    const { sql, connections, users } = await openStore(Date.now)
    let times = 0
    const connectionsAgain = disturbed(connections, 'INSERT INTO users (', async () => {
      times++
      await sql(insert)
    })
    const store = createPostgresUserImportStore(
      {
        ...connectionsAgain,
        transaction: work => connectionsAgain.transaction(work).finally(() => sql(remove)),
      },
      Date.now,
    )
    const code = 'storage_unavailable'
    await expect(importUsers(store, [ANN, BEA])).rejects.toMatchObject({ code })
    expect(times).toBe(5)
    expect(await users()).toEqual([])
  })

  test('two imports of the same users in opposite orders both end', async () => {
    const { url, store, users } = await openStore(Date.now)
    const other = createPostgresUserImportStore(connectTo(url), Date.now)
    for (const name of ['Bea', 'Cid', 'Dan']) {
      const batch = Array.from({ length: 300 }, (_, index) => ({ name, email: `${index}@x.co` }))
      await Promise.all([
        importUsers(store, batch, 'update'),
        importUsers(other, batch.toReversed(), 'update'),
      ])
    }
    expect((await users()).map(({ name }) => name)).toEqual(Array(300).fill('Dan'))
  })
})

test('after the largest id a user without an id is refused, also in a dry run', async () => {
  const { store, users } = await openStore(Date.now)
  const trial = await openTrialImports(store, Date.now)
  onTestFinished(trial.close)
  for (const each of [trial.store, store]) {
    expect(await importUsers(each, [{ ...ANN, id: MAX_ID }])).toEqual(['created'])
    await expect(importUsers(each, [BEA])).rejects.toMatchObject({ code: 'storage_damaged' })
  }
  expect(await users()).toHaveLength(1)
})

test.each([
  ['one after the other', 20_000, (nth: number) => (nth + 1) * 10_000],
  ['between users without an id', 20_000, (nth: number) => (nth % 2 ? undefined : nth * 4500 + 1)],
])('ids that are far apart are taken in a few steps, %s', async (_, count, idAt) => {
  const url = await copyPostgresTemplate()
  // Each step of the sequence would take longer than the statement may.
  const connections = connectTo(url, { longStatementMs: 5000 })
  const wanted = Array.from({ length: count }, (_value, nth) => idAt(nth))
  const ids = await takeIds(connections, wanted)
  expect(ids.filter((id, nth) => wanted[nth] !== undefined && id !== wanted[nth])).toEqual([])
  const given = ids.filter((_id, nth) => wanted[nth] === undefined)
  expect(new Set([...given, ...wanted]).size).toBe(given.length ? count + 1 : count)
  expect(given.filter((id, nth) => id <= (wanted[2 * nth] ?? 0))).toEqual([])
  const [next = 0] = await takeIds(connections, [undefined])
  expect(next).toBeGreaterThan(Math.max(...ids))
})

test('near ids leave none out, beside those that others take', async () => {
  const connections = connectTo(await copyPostgresTemplate())
  expect(await takeIds(connections, [undefined, 500, undefined, 7, 700])).toEqual([
    1, 500, 501, 7, 700,
  ])
  const others = Array.from({ length: 20 }, (_, nth) =>
    takeIds(connections, [undefined, nth * 30_000]),
  )
  const given = (await Promise.all(others)).map(([id]) => id)
  expect(new Set(given).size).toBe(20)
  const [next = 0] = await takeIds(connections, [undefined])
  expect(next).toBeGreaterThan(19 * 30_000)
})

function takeIds(connections: Connections, wanted: readonly (number | undefined)[]) {
  const { transaction } = createPostgresSharedStatements(connections)
  return transaction(() => takeIdsIn(wanted), { isLong: true })
}

const ANN = { name: 'Ann', email: 'ann@example.com' }
const BEA = { name: 'Bea', email: 'bea@example.com' }
const CID = { name: 'Cid', email: 'cid@example.com' }

/** Calls `disturb` within transactions, before each statement with this text. */
function disturbed(
  connections: Connections,
  part: string,
  disturb: () => Promise<unknown>,
): Connections {
  return {
    ...connections,
    transaction: (work, options) =>
      connections.transaction(
        session =>
          work({
            query: async (statement, values) => {
              if (String(statement).includes(part)) await disturb()
              return session.query(statement, values)
            },
          }),
        options,
      ),
  }
}
