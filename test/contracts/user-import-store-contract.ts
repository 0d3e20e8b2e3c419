import { describe, expect, test } from 'vitest'
import {
  CONFLICT_POLICIES,
  type ConflictPolicy,
  type ImportCheckpoint,
  type ImportedUser,
  type ImportOutcome,
  type UserImportStore,
} from '../../src/users/transfer/user-import-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'

/** All columns of a stored user. */
export interface UserRow {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly passwordDigest: string | null
  readonly createdAt: string
  readonly updatedAt: string
}

export interface OpenedImportStore {
  readonly store: UserImportStore
  /** A store on the same database that is not a dry run: `store` itself, unless it is one. */
  readonly realStore: UserImportStore
  /** All users in the database, by id. */
  users(): Promise<readonly UserRow[]>
  deleteUser(id: number): Promise<void>
}

export interface ImportStoreHarness {
  readonly name: string
  /** A dry run decides like an import, but stores nothing and does not end at a conflict. */
  readonly isDryRun: boolean
  /** Opens a store on an empty database, with times from `now`. `fill` runs before that. */
  open(
    now: () => number,
    fill: (realStore: UserImportStore) => Promise<unknown>,
  ): Promise<OpenedImportStore>
}

const NOON = '2026-01-31T12:00:00.000Z'
const EARLIER = '2020-02-29T00:00:00.000Z'
const LATER = '2021-03-01T00:00:00.000Z'

const ANN = { name: 'Ann', email: 'ann@example.com' }
const BEA = { name: 'Bea', email: 'bea@example.com' }
const CID = { name: 'Cid', email: 'cid@example.com' }

/** Two existing users for conflicts. */
const OLD_ANN = { ...ANN, id: 1, passwordDigest: '$1', createdAt: EARLIER }
const OLD_BEA = { ...BEA, id: 2, createdAt: EARLIER }

const START: ImportCheckpoint = {
  source: '/home/ann/users.ndjson',
  records: 0,
  recordsHash: Buffer.alloc(32),
  rejectsBytes: 0,
  counts: { created: 0, updated: 0, unchanged: 0, skipped: 0, rejected: 0 },
  isFinished: false,
}

const CHECKPOINT: ImportCheckpoint = {
  ...START,
  records: 2_000_001,
  recordsHash: Buffer.alloc(32, 7),
  rejectsBytes: 5_000_000_000,
  counts: { created: 1, updated: 20, unchanged: 300, skipped: 4000, rejected: 50_000 },
  isFinished: true,
}

async function write(
  store: UserImportStore,
  users: readonly ImportedUser[],
  onConflict: ConflictPolicy = 'fail',
): Promise<readonly ImportOutcome[]> {
  const batch = { users, onConflict, checkpointAfter: () => START }
  return (await store.write(batch)).outcomes
}

/** The tests that every adapter of `UserImportStore` must pass, also a dry run as far as possible. */
export function describeUserImportStore({ name, isDryRun, open }: ImportStoreHarness): void {
  async function opened(fill?: (realStore: UserImportStore) => Promise<unknown>) {
    const clock = createFakeClock()
    const { store, realStore, users, deleteUser } = await open(clock.now, fill ?? (async () => {}))
    const filled = await users()
    /** For a dry run: the users that existed before. */
    async function expectUsers(expected: readonly object[]): Promise<void> {
      if (isDryRun) expect(await users()).toEqual(filled)
      else expect(await users()).toMatchObject(expected)
    }
    return { clock, store, realStore, deleteUser, expectUsers }
  }

  const openedWithTwo = () => opened(store => write(store, [OLD_ANN, OLD_BEA]))

  describe(`UserImportStore: ${name}`, () => {
    test('write creates users in order, with the given ids, digests and times', async () => {
      const { store, expectUsers } = await opened()
      const users: ImportedUser[] = [
        { ...BEA, id: 7, passwordDigest: '$2b$x', createdAt: EARLIER, updatedAt: LATER },
        { name: ' Ünn "Z" 😀', email: 'ANN@Example.com', id: 5, passwordDigest: null },
      ]
      expect(await write(store, users)).toEqual(['created', 'created'])
      await expectUsers([
        { ...users[1], passwordDigest: null, createdAt: NOON, updatedAt: NOON },
        { ...users[0], passwordDigest: '$2b$x', createdAt: EARLIER, updatedAt: LATER },
      ])
    })

    test('write copies a missing time from the other one, and uses the current time if both are missing', async () => {
      const { store, clock, expectUsers } = await opened()
      clock.advance(1)
      await write(store, [ANN, { ...BEA, createdAt: EARLIER }, { ...CID, updatedAt: LATER }])
      const now = '2026-01-31T12:00:00.001Z'
      await expectUsers([
        { ...ANN, createdAt: now, updatedAt: now },
        { ...BEA, createdAt: EARLIER, updatedAt: EARLIER },
        { ...CID, createdAt: LATER, updatedAt: LATER },
      ])
    })

    test('write gives a new user the id after the highest one ever used', async () => {
      const { store, expectUsers } = await opened()
      await write(store, [{ ...ANN, id: 41 }, BEA, { ...CID, id: 3 }])
      await write(store, [{ name: 'Dan', email: 'dan@example.com' }])
      await expectUsers([{ id: 3 }, { id: 41 }, { id: 42, name: 'Bea' }, { id: 43, name: 'Dan' }])
    })

    test('write restores a deleted user under the given id, and gives this id to no other user', async () => {
      const { store, deleteUser } = await openedWithTwo()
      await deleteUser(2)
      expect(await write(store, [CID])).toEqual(['created'])
      expect(await write(store, [{ ...BEA, id: 3 }])).toEqual(['id_taken'])
      expect(await write(store, [{ ...BEA, id: 2 }])).toEqual(['created'])
    })

    test('write of no users stores the checkpoint', async () => {
      const { store, expectUsers } = await opened()
      const batch = { users: [], onConflict: 'fail', checkpointAfter: () => CHECKPOINT } as const
      expect(await store.write(batch)).toEqual({ outcomes: [], checkpoint: CHECKPOINT })
      await expectUsers([])
    })

    describe('when a user already has the e-mail or the id', () => {
      const taken = [
        { row: { ...CID, email: 'ANN@example.com' }, outcome: 'email_taken' },
        { row: { ...CID, id: 2 }, outcome: 'id_taken' },
        { row: { ...CID, id: 2, email: 'Ann@example.com' }, outcome: 'email_taken' },
      ] as const

      test.each(taken)('`fail` reports $outcome of $row', async ({ row, outcome }) => {
        const { store, expectUsers } = await openedWithTwo()
        expect(await write(store, [row])).toEqual([outcome])
        await expectUsers([OLD_ANN, OLD_BEA])
      })

      test.each(taken)('`skip` skips $row', async ({ row }) => {
        const { store, expectUsers } = await openedWithTwo()
        const users = [row, { ...CID, id: 9 }]
        expect(await write(store, users, 'skip')).toEqual(['skipped', 'created'])
        await expectUsers([OLD_ANN, OLD_BEA, { ...CID, id: 9 }])
      })

      test(
        isDryRun
          ? '`fail` reports every conflict and continues'
          : '`fail` ends the batch at the first conflict, and keeps the rows before it',
        async () => {
          const { store, expectUsers } = await openedWithTwo()
          const outcomes = await write(store, [CID, ANN, BEA, { ...CID, email: 'd@example.com' }])
          const conflicts = ['created', 'email_taken']
          expect(outcomes).toEqual(isDryRun ? [...conflicts, 'email_taken', 'created'] : conflicts)
          await expectUsers([OLD_ANN, OLD_BEA, { ...CID, id: 3 }])
        },
      )

      test('`update` changes the user with the e-mail, otherwise with the id, and keeps id and created_at', async () => {
        const { store, expectUsers } = await openedWithTwo()
        const rows: ImportedUser[] = [
          { name: 'Anna', email: 'ANN@example.com', id: 77, createdAt: LATER, updatedAt: LATER },
          { name: 'Bea', email: 'beatrice@example.com', id: 2, passwordDigest: '$2' },
        ]
        expect(await write(store, rows, 'update')).toEqual(['updated', 'updated'])
        const times = { createdAt: EARLIER, updatedAt: NOON }
        await expectUsers([
          { id: 1, name: 'Anna', email: 'ANN@example.com', passwordDigest: '$1', ...times },
          { id: 2, name: 'Bea', email: 'beatrice@example.com', passwordDigest: '$2', ...times },
        ])
      })

      test('`update` counts an equal row as unchanged, and keeps updated_at', async () => {
        const { store, expectUsers } = await openedWithTwo()
        const rows = [ANN, { ...ANN, passwordDigest: '$1' }, { ...BEA, passwordDigest: null }]
        expect(await write(store, rows, 'update')).toEqual(['unchanged', 'unchanged', 'unchanged'])
        await expectUsers([
          { ...OLD_ANN, updatedAt: EARLIER },
          { ...OLD_BEA, updatedAt: EARLIER },
        ])
      })

      test('`update` removes a digest if the row says so', async () => {
        const { store, expectUsers } = await openedWithTwo()
        expect(await write(store, [{ ...ANN, passwordDigest: null }], 'update')).toEqual([
          'updated',
        ])
        await expectUsers([{ ...OLD_ANN, passwordDigest: null }, OLD_BEA])
      })

      test('`update` makes updated_at later, even if it is in the future', async () => {
        const future = '2030-01-01T00:00:00.000Z'
        const { store, expectUsers } = await opened(realStore =>
          write(realStore, [{ ...ANN, createdAt: EARLIER, updatedAt: future }]),
        )
        expect(await write(store, [{ ...ANN, name: 'Anna' }], 'update')).toEqual(['updated'])
        await expectUsers([{ name: 'Anna', updatedAt: '2030-01-01T00:00:00.001Z' }])
      })

      test('`update` reports email_taken if e-mail and id belong to two users', async () => {
        const { store, expectUsers } = await openedWithTwo()
        const rows = [{ ...ANN, name: 'Anna', id: 2 }, CID]
        expect(await write(store, rows, 'update')).toEqual(['email_taken', 'created'])
        await expectUsers([OLD_ANN, OLD_BEA, CID])
      })

      test.each(CONFLICT_POLICIES)('`%s` uses no id for a row in conflict', async onConflict => {
        const { store, expectUsers } = await openedWithTwo()
        await write(store, [{ ...ANN, id: 2 ** 40 }], onConflict)
        await write(store, [ANN], onConflict)
        expect(await write(store, [{ ...CID, id: 2 ** 40 }], 'skip')).toEqual(['created'])
        await expectUsers([{ id: 1 }, { id: 2 }, { id: 2 ** 40, name: 'Cid' }])
      })
    })

    describe('a row that comes twice', () => {
      test.each([
        ['fail', ['created', 'email_taken']],
        ['skip', ['created', 'skipped']],
        ['update', ['created', 'unchanged']],
      ] as const)(
        'with `%s` has the outcomes %j, in one batch and in two',
        async (onConflict, outcomes) => {
          const inOne = await opened()
          expect(await write(inOne.store, [ANN, ANN], onConflict)).toEqual(outcomes)
          await inOne.expectUsers([{ ...ANN, id: 1 }])
          const inTwo = await opened()
          const first = await write(inTwo.store, [ANN], onConflict)
          expect([...first, ...(await write(inTwo.store, [ANN], onConflict))]).toEqual(outcomes)
          await inTwo.expectUsers([{ ...ANN, id: 1 }])
        },
      )

      test('the second row sees the e-mail and id of the first, and those that the first has freed', async () => {
        const { store, expectUsers } = await openedWithTwo()
        const rows = [
          { ...CID },
          { name: 'Cid the second', email: 'cid2@example.com', id: 3 },
          { name: 'Bea', email: 'beatrice@example.com', id: 2 },
          { name: 'Hal', email: BEA.email },
        ]
        const outcomes = ['created', 'updated', 'updated', 'created']
        expect(await write(store, rows, 'update')).toEqual(outcomes)
        await expectUsers([{ id: 1 }, { ...rows[2] }, { ...rows[1] }, { ...rows[3], id: 4 }])
      })
    })

    test('a row sees the id that an earlier row has got', async () => {
      const { store, expectUsers } = await openedWithTwo()
      const rows = [CID, { name: 'Cid', email: 'cid2@example.com', id: 3 }, { ...CID, name: 'Dan' }]
      const outcomes = ['created', 'updated', 'created']
      expect(await write(store, rows, 'update')).toEqual(outcomes)
      await expectUsers([{ id: 1 }, { id: 2 }, { ...rows[1], id: 3 }, { ...rows[2], id: 4 }])
    })

    test('findDigestsByEmail ignores case, and its keys are spelt as in the call', async () => {
      const { store } = await openedWithTwo()
      const emails = ['ANN@example.com', 'ann@example.com', 'bea@example.com', 'cid@example.com']
      expect(await store.findDigestsByEmail(emails)).toEqual(
        new Map([
          ['ANN@example.com', '$1'],
          ['ann@example.com', '$1'],
          ['bea@example.com', null],
        ]),
      )
      expect(await store.findDigestsByEmail([])).toEqual(new Map())
    })

    test('findDigestsByEmail sees earlier writes', async () => {
      const { store } = await openedWithTwo()
      await write(store, [{ ...CID, passwordDigest: '$3' }])
      await write(store, [{ ...ANN, passwordDigest: '$4' }], 'update')
      const emails = [ANN.email, CID.email]
      expect([...(await store.findDigestsByEmail(emails)).values()]).toEqual(['$4', '$3'])
    })

    test('write passes its outcomes to checkpointAfter, and returns both', async () => {
      const { store } = await openedWithTwo()
      const seen: (readonly ImportOutcome[])[] = []
      const written = await store.write({
        users: [CID, ANN],
        onConflict: 'skip',
        checkpointAfter: outcomes => {
          seen.push([...outcomes])
          return CHECKPOINT
        },
      })
      expect(written).toEqual({ outcomes: ['created', 'skipped'], checkpoint: CHECKPOINT })
      expect(seen).toEqual([['created', 'skipped']])
    })

    test(
      isDryRun
        ? 'findCheckpoint finds nothing'
        : 'findCheckpoint finds the last checkpoint of a source',
      async () => {
        const { store, realStore } = await opened()
        const keep = (to: UserImportStore, checkpoint: ImportCheckpoint) =>
          to.write({ users: [], onConflict: 'fail', checkpointAfter: () => checkpoint })
        const other = { ...START, source: '-', records: 5 }
        for (const checkpoint of [START, CHECKPOINT, other]) {
          await keep(store, checkpoint)
          if (isDryRun) await keep(realStore, checkpoint)
        }
        const [first, second] = isDryRun ? [] : [CHECKPOINT, other]
        expect(await store.findCheckpoint(CHECKPOINT.source)).toEqual(first)
        expect(await store.findCheckpoint('-')).toEqual(second)
        expect(await store.findCheckpoint('/home/ann/USERS.ndjson')).toBeUndefined()
      },
    )

    test('write whose checkpointAfter throws fails with that error, and stores nothing', async () => {
      const { store, expectUsers } = await openedWithTwo()
      await store.write({ users: [], onConflict: 'fail', checkpointAfter: () => CHECKPOINT })
      const failure = new Error('the rejects file cannot be written')
      const failing = store.write({
        users: [{ ...ANN, name: 'Anna' }, CID],
        onConflict: 'update',
        checkpointAfter: () => {
          throw failure
        },
      })
      await expect(failing).rejects.toBe(failure)
      await expectUsers([OLD_ANN, OLD_BEA])
      const last = isDryRun ? undefined : CHECKPOINT
      expect(await store.findCheckpoint(CHECKPOINT.source)).toEqual(last)
    })
  })
}
