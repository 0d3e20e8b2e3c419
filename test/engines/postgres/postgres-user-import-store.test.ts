import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Connections } from '../../../src/storage/postgres/postgres-connections.ts'
import { openPostgresTrialImportStore } from '../../../src/storage/postgres/postgres-trial-import-store.ts'
import { createPostgresUserImportStore } from '../../../src/storage/postgres/postgres-user-import-store.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../../src/storage/sqlite/read-view.ts'
import { createSqliteUserImportStore } from '../../../src/storage/sqlite/sqlite-user-import-store.ts'
import { createWriteQueue } from '../../../src/storage/sqlite/write-queue.ts'
import {
  CONFLICT_POLICIES,
  type ImportBatch,
  type ImportedUser,
  type UserImportStore,
} from '../../../src/users/transfer/user-import-store.ts'
import { MAX_ID } from '../../../src/users/used-up.ts'
import {
  describeUserImportStore,
  type UserRow,
} from '../../contracts/user-import-store-contract.ts'
import { createFakeClock } from '../../support/fake-clock.ts'
import { CHECKPOINT, importUsers } from '../../support/import-users.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { connectTo, insertUser } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'

const SELECT_USERS = `
  SELECT id, name, email, password_digest AS "passwordDigest", created_at AS "createdAt",
    updated_at AS "updatedAt"
  FROM users ORDER BY id`

async function openRealStore(now: () => number) {
  const url = await copyPostgresTemplate()
  const connections = connectTo(url)
  const sql = (text: string) => queryPostgres(url, text)
  return {
    url,
    sql,
    connections,
    realStore: createPostgresUserImportStore({ connections, now }),
    users: async () => (await sql(SELECT_USERS)) as unknown as UserRow[],
    deleteUser: async (id: number) => {
      await sql(`DELETE FROM users WHERE id = ${id}`)
    },
  }
}

describe('on PostgreSQL', () => {
  for (const isDryRun of [false, true]) {
    describeUserImportStore({
      name: isDryRun ? 'a dry run on PostgreSQL' : 'PostgreSQL',
      isDryRun,
      open: async (now, fill) => {
        const opened = await openRealStore(now)
        const { connections, realStore } = opened
        await fill(realStore)
        const store = isDryRun
          ? await openPostgresTrialImportStore({ connections, now })
          : realStore
        return { ...opened, store }
      },
    })
  }

  test('decides and numbers random batches as SQLite does, also in a dry run', async () => {
    const clock = createFakeClock()
    const { sql, connections, realStore, users } = await openRealStore(clock.now)
    await fc.assert(
      fc.asyncProperty(fc.array(batches, { maxLength: 4 }), async all => {
        await sql('TRUNCATE users RESTART IDENTITY; DELETE FROM imports')
        const sqlite = await openSqliteStore(clock.now)
        const trial = await openPostgresTrialImportStore({ connections, now: clock.now })
        let hasConflict = false
        for (const batch of all) {
          clock.advance(1)
          const { outcomes } = await sqlite.store.write(batch)
          expect((await realStore.write(batch)).outcomes).toEqual(outcomes)
          // Under `fail` only a dry run goes on behind a conflict.
          hasConflict ||= batch.onConflict === 'fail' && outcomes.some(each => each !== 'created')
        }
        expect(await users()).toEqual(sqlite.users())
        if (hasConflict) return
        await sql('TRUNCATE users RESTART IDENTITY')
        const again = await openSqliteStore(clock.now)
        for (const batch of all) {
          const { outcomes } = await again.store.write(batch)
          expect((await trial.write(batch)).outcomes).toEqual(outcomes)
        }
      }),
      { numRuns: 60, seed: 7 },
    )
  })

  test('a batch can swap and rotate the e-mails of existing users', async () => {
    const { realStore, users } = await openRealStore(Date.now)
    const at = (id: number, email: string) => ({ id, name: 'Ann', email: `${email}@example.com` })
    await importUsers(realStore, [at(1, 'a'), at(2, 'b'), at(3, 'c')])
    const rows = [at(1, 'x'), at(2, 'A'), at(3, 'b'), at(1, 'c'), at(9, 'free')]
    expect(await importUsers(realStore, rows, 'update')).toEqual([
      ...['updated', 'updated', 'updated', 'updated'],
      'created',
    ])
    expect((await users()).map(({ id, email }) => `${id} ${email}`)).toEqual([
      '1 c@example.com',
      '2 A@example.com',
      '3 b@example.com',
      '9 free@example.com',
    ])
  })

  describe('when another writer comes in between', () => {
    const insert = insertUser('bea@example.com', 'Bea')

    const remove = `DELETE FROM users WHERE email = 'bea@example.com'`

    test.each([
      ['fail', ['created', 'email_taken']],
      ['skip', ['created', 'skipped', 'created']],
      ['update', ['created', 'updated', 'created']],
    ] as const)('with `%s` a batch is repeated as a whole', async (onConflict, outcomes) => {
      const { sql, connections, users } = await openRealStore(Date.now)
      let times = 0
      const store = createPostgresUserImportStore({
        connections: disturbed(connections, 'INSERT INTO users (', async () => {
          times++
          if (times === 1) await sql(insert)
        }),
        now: Date.now,
      })
      const seen: unknown[] = []
      const batch: ImportBatch = {
        users: [ANN, { ...BEA, name: 'Beatrice' }, CID],
        onConflict,
        checkpointAfter: all => {
          seen.push(all)
          return CHECKPOINT
        },
      }
      expect((await store.write(batch)).outcomes).toEqual(outcomes)
      expect(times).toBe(2)
      expect(seen).toEqual([outcomes])
      const names = (await users()).map(({ name }) => name).toSorted()
      const bea = onConflict === 'update' ? 'Beatrice' : 'Bea'
      expect(names).toEqual(onConflict === 'fail' ? ['Ann', bea] : ['Ann', bea, 'Cid'])
    })

    test('a user that it deletes is created', async () => {
      const { sql, connections, realStore, users } = await openRealStore(Date.now)
      await importUsers(realStore, [BEA])
      const store = createPostgresUserImportStore({
        connections: disturbed(connections, 'SELECT', () => sql(remove)),
        now: Date.now,
      })
      const both = [ANN, { ...BEA, name: 'Beatrice' }]
      expect(await importUsers(store, both, 'skip')).toEqual(['created', 'created'])
      expect((await users()).map(({ name }) => name)).toEqual(['Ann', 'Beatrice'])
    })

    test('each time, write gives up with storage_unavailable', async () => {
      const { sql, connections, users } = await openRealStore(Date.now)
      let times = 0
      const connectionsAgain = disturbed(connections, 'INSERT INTO users (', async () => {
        times++
        await sql(insert)
      })
      const store = createPostgresUserImportStore({
        connections: {
          ...connectionsAgain,
          transaction: work => connectionsAgain.transaction(work).finally(() => sql(remove)),
        },
        now: Date.now,
      })
      await expect(importUsers(store, [ANN, BEA])).rejects.toMatchObject({
        code: 'storage_unavailable',
      })
      expect(times).toBe(5)
      expect(await users()).toEqual([])
    })

    test('two imports of the same users in opposite orders both end', async () => {
      const { url, users } = await openRealStore(Date.now)
      const stores = [1, 2].map(() =>
        createPostgresUserImportStore({ connections: connectTo(url), now: Date.now }),
      )
      const rows = Array.from({ length: 300 }, (_, index) => ({
        name: 'Ann',
        email: `user${index}@example.com`,
      }))
      for (const name of ['Bea', 'Cid', 'Dan']) {
        const batch = rows.map(row => ({ ...row, name }))
        await Promise.all(
          [batch, batch.toReversed()].map((all, index) =>
            importUsers(stores[index] as UserImportStore, all, 'update'),
          ),
        )
      }
      const all = await users()
      expect(all).toHaveLength(300)
      expect(new Set(all.map(({ name }) => name))).toEqual(new Set(['Dan']))
    })
  })

  test('after the largest id a user without an id is refused, also in a dry run', async () => {
    const { connections, realStore, users } = await openRealStore(Date.now)
    const trial = await openPostgresTrialImportStore({ connections, now: Date.now })
    const largest = { ...ANN, id: MAX_ID }
    for (const store of [trial, realStore]) {
      expect(await importUsers(store, [largest])).toEqual(['created'])
      await expect(importUsers(store, [BEA])).rejects.toMatchObject({ code: 'storage_damaged' })
    }
    expect(await users()).toHaveLength(1)
  })
})

const ANN = { name: 'Ann', email: 'ann@example.com' }
const BEA = { name: 'Bea', email: 'bea@example.com' }
const CID = { name: 'Cid', email: 'cid@example.com' }

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
              if (statement.text.includes(part)) await disturb()
              return session.query(statement, values)
            },
          }),
        options,
      ),
  }
}

/** A store on an empty database of SQLite. */
async function openSqliteStore(now: () => number) {
  const database = await openSqlite({ path: join(temporaryFolder(), 'users.db'), now })
  const writes = createWriteQueue(database, createReadView(database))
  onTestFinished(async () => {
    await writes.close()
    database.close()
  })
  const selectUsers = database.prepare<[], UserRow>(SELECT_USERS)
  return {
    store: createSqliteUserImportStore({ database, writes, now }),
    users: () => selectUsers.all(),
  }
}
