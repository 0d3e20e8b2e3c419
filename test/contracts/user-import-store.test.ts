import { describe, expect, test } from 'vitest'
import type {
  ImportCheckpoint,
  ImportedUser,
  ImportOutcome,
} from '../../src/users/transfer/user-import-store.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { CHECKPOINT, importUsers, openImportStore } from '../support/import-users.ts'

const NOON = '2026-01-31T12:00:00.000Z'
const EARLIER = '2020-02-29T00:00:00.000Z'
const LATER = '2021-03-01T00:00:00.000Z'
const FUTURE = '2030-01-01T00:00:00.000Z'

const ANN = { name: 'Ann', email: 'ann@example.com' }
const BEA = { name: 'Bea', email: 'bea@example.com' }
const CID = { name: 'Cid', email: 'cid@example.com' }

const OLD_ANN = { ...ANN, id: 1, passwordDigest: '$1', createdAt: EARLIER, updatedAt: EARLIER }
const OLD_BEA = { ...BEA, id: 2, passwordDigest: null, createdAt: EARLIER, updatedAt: FUTURE }

const openWithTwo = async () => {
  const opened = await openImportStore(createFakeClock().now)
  await importUsers(opened.store, [OLD_ANN, OLD_BEA])
  return opened
}

describe('UserImportStore', () => {
  test('creates users with the given ids, digests and times, and fills in the missing ones', async () => {
    const { store, users } = await openImportStore(createFakeClock().now)
    const rows: ImportedUser[] = [
      { ...BEA, id: 7, passwordDigest: '$2b$x', createdAt: EARLIER, updatedAt: LATER },
      { name: ' Ünn "Z" 😀', email: 'ANN@Example.com', id: 5, createdAt: EARLIER },
      { ...CID, updatedAt: LATER },
      { name: 'Dan', email: 'dan@example.com' },
    ]
    expect(await importUsers(store, rows)).toEqual(Array(4).fill('created'))
    const noDigest = { passwordDigest: null }
    expect(await users()).toEqual([
      { ...rows[1], ...noDigest, updatedAt: EARLIER },
      rows[0],
      { ...rows[2], ...noDigest, id: 8, createdAt: LATER },
      { ...rows[3], ...noDigest, id: 9, createdAt: NOON, updatedAt: NOON },
    ])
  })

  test('restores a deleted user under its id, and gives this id to no other user', async () => {
    const { store, users, sql } = await openWithTwo()
    await sql('DELETE FROM users WHERE id = 2')
    const rows = [CID, { ...BEA, id: 2 }]
    expect(await importUsers(store, rows)).toEqual(['created', 'created'])
    expect(await users()).toMatchObject([OLD_ANN, BEA, { ...CID, id: 3 }])
  })

  test('`fail` ends the batch at the first conflict, and keeps the rows before it', async () => {
    const { store, users } = await openWithTwo()
    const taken = { ...ANN, id: 2, email: 'Ann@example.com' }
    expect(await importUsers(store, [CID, taken, BEA])).toEqual(['created', 'email_taken'])
    expect(await importUsers(store, [{ ...taken, email: 'x@x.co' }])).toEqual(['id_taken'])
    expect(await users()).toMatchObject([OLD_ANN, OLD_BEA, CID])
  })

  test('`skip` and `update` use no id for a row in conflict, and take the ids of new users', async () => {
    const { store, users } = await openWithTwo()
    for (const onConflict of ['skip', 'update'] as const) {
      const outcome = onConflict === 'skip' ? 'skipped' : 'unchanged'
      const rows = [{ ...ANN, id: 2 ** 40 }, ANN]
      expect(await importUsers(store, rows, onConflict)).toEqual([outcome, outcome])
    }
    await importUsers(store, [CID, { ...BEA, email: 'b@x.co', id: 2 ** 40 }])
    expect((await users()).map(user => user.id)).toEqual([1, 2, 3, 2 ** 40])
  })

  test('`update` changes what differs, and makes updated_at later even if it is in the future', async () => {
    const { store, users } = await openWithTwo()
    const rows: [ImportedUser, ImportOutcome][] = [
      [{ ...ANN, createdAt: LATER, updatedAt: LATER }, 'unchanged'],
      [{ ...ANN, passwordDigest: '$1' }, 'unchanged'],
      [{ ...ANN, email: 'ANN@example.com', id: 77, passwordDigest: null }, 'updated'],
      [{ ...ANN, id: 2 }, 'email_taken'],
      [{ name: 'Bea', email: 'beatrice@example.com', id: 2 }, 'updated'],
      // Has what an earlier row has freed, and then the id that was assigned.
      [{ name: 'Hal', email: BEA.email }, 'created'],
      [{ name: 'Hal', email: 'hal@example.com', id: 3 }, 'updated'],
    ]
    const batch = rows.map(([row]) => row)
    expect(await importUsers(store, batch, 'update')).toEqual(rows.map(([, outcome]) => outcome))
    expect(await users()).toMatchObject([
      { ...OLD_ANN, email: 'ANN@example.com', passwordDigest: null, updatedAt: NOON },
      { ...OLD_BEA, email: 'beatrice@example.com', updatedAt: FUTURE.replace('.000', '.001') },
      { id: 3, name: 'Hal', email: 'hal@example.com' },
    ])
  })

  test('a batch can swap and rotate the e-mails of existing users', async () => {
    const { store, users } = await openImportStore(createFakeClock().now)
    const at = (id: number, email: string) => ({ id, name: 'Ann', email })
    await importUsers(store, [at(1, 'a@x.co'), at(2, 'b@x.co'), at(3, 'c@x.co')])
    const rows = [at(1, 'x@x.co'), at(2, 'A@x.co'), at(3, 'b@x.co'), at(1, 'c@x.co')]
    expect(await importUsers(store, rows, 'update')).toEqual(Array(4).fill('updated'))
    expect((await users()).map(({ email }) => email)).toEqual(['c@x.co', 'A@x.co', 'b@x.co'])
  })

  test('lastId is the highest id that was ever given out', async () => {
    const { store, sql } = await openImportStore(createFakeClock().now)
    expect(await store.lastId()).toBe(0)
    await importUsers(store, [OLD_ANN, OLD_BEA])
    await sql('DELETE FROM users')
    expect(await store.lastId()).toBe(2)
  })

  test('the checkpoint of a source is stored with its batch, or neither is', async () => {
    const { store, users } = await openWithTwo()
    const last: ImportCheckpoint = {
      source: '/home/ann/users.ndjson',
      records: 2_000_001,
      recordsHash: Buffer.alloc(32, 7),
      rejectsBytes: 5_000_000_000,
      counts: { created: 1, updated: 20, unchanged: 300, skipped: 4000, rejected: 50_000 },
      isFinished: true,
    }
    for (const checkpoint of [{ ...CHECKPOINT, source: last.source }, last, CHECKPOINT]) {
      const checkpointAfter = () => checkpoint
      const written = await store.write({ users: [], onConflict: 'fail', checkpointAfter })
      expect(written).toEqual([])
      expect(await store.findCheckpoint(checkpoint.source)).toEqual(checkpoint)
    }
    const failure = new Error('the rejects file cannot be written')
    const seen: (readonly ImportOutcome[])[] = []
    const failing = store.write({
      users: [{ ...ANN, name: 'Anna' }, CID],
      onConflict: 'update',
      checkpointAfter: outcomes => {
        seen.push(outcomes)
        throw failure
      },
    })
    await expect(failing).rejects.toBe(failure)
    expect(seen).toEqual([['updated', 'created']])
    expect(await users()).toEqual([OLD_ANN, OLD_BEA])
    expect(await store.findCheckpoint(last.source)).toEqual(last)
    expect(await store.findCheckpoint(CHECKPOINT.source)).toEqual(CHECKPOINT)
    expect(await store.findCheckpoint('/home/ann/USERS.ndjson')).toBeUndefined()
  })
})
