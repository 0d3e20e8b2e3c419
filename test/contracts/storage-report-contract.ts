import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { totalOf } from '../../src/metrics/histogram.ts'
import type { Storage } from '../../src/storage/storage.ts'
import {
  COMMIT_SECONDS_BOUNDS,
  COMMIT_WRITES_BOUNDS,
  type CommitReport,
} from '../../src/storage/storage-report.ts'
import type { StoredUser } from '../../src/users/user-repository.ts'
import { holdWrites } from '../support/sql.ts'

export interface StorageReportHarness {
  readonly name: string
  /** A storage on a new database, which is closed after the test. */
  open(): Promise<ReportedStorage>
}

export interface ReportedStorage {
  readonly storage: Storage
  readonly databaseUrl: string
}

/** The tests of `Storage.report` that every storage must pass. */
export function describeStorageReport({ name, open }: StorageReportHarness): void {
  /** The storage with what its report says in short. */
  async function openCounted() {
    const { storage, databaseUrl } = await open()
    const commits = async (): Promise<CommitReport> => (await storage.report()).commits
    return {
      ...storage,
      databaseUrl,
      waitingWrites: async () => (await storage.report()).waitingWrites,
      counts: async () => {
        const { seconds, writes } = await commits()
        expect(totalOf(writes)).toBe(totalOf(seconds))
        return { commits: totalOf(seconds), writes: writes.sum }
      },
      commits,
    }
  }

  describe(`Storage.report: ${name}`, () => {
    test('a new storage has committed nothing, and nothing waits', async () => {
      const { report, counts, waitingWrites, commits } = await openCounted()
      expect(await counts()).toEqual({ commits: 0, writes: 0 })
      expect(await waitingWrites()).toBe(0)
      const { seconds, writes } = await commits()
      expect(seconds.counts).toHaveLength(COMMIT_SECONDS_BOUNDS.length + 1)
      expect(writes.counts).toHaveLength(COMMIT_WRITES_BOUNDS.length + 1)
      expect(JSON.parse(JSON.stringify(await report()))).toEqual(await report())
    })

    test('a lone write is one commit of one write, of whatever kind', async () => {
      const { users, bans, apiKeys, counts } = await openCounted()
      const ban = { rule: 'login', clientKey: 'ann', endsAt: Date.now() + 60_000, lastsMs: 60_000 }
      const { id } = await users.create({ ...newUser(), passwordDigest: '$argon2id$old' })
      const writes = [
        () => users.update(id, { name: 'Bob' }),
        () => users.replaceDigest(id, { previous: '$argon2id$old', next: '$argon2id$new' }),
        () => users.delete(id),
        () => bans.save(ban),
        () => bans.lift({}),
        () => apiKeys.recordUses([{ hash: Buffer.alloc(32), usedAt: 1 }]),
        () => users.create(newUser(), claim()),
      ]
      for (const [index, write] of writes.entries()) {
        await write()
        expect(await counts()).toEqual({ commits: index + 2, writes: index + 2 })
      }
    })

    test('writes of one turn share one commit, and reads are none', async () => {
      const { users, counts, commits } = await openCounted()
      await Promise.all(createMany(users, 7))
      expect(await counts()).toEqual({ commits: 1, writes: 7 })
      const { writes } = await commits()
      expect(writes.counts[COMMIT_WRITES_BOUNDS.indexOf(10)]).toBe(1)
      await users.find(1)
      expect(await users.isEmailTaken('nobody@example.com')).toBe(false)
      expect(await counts()).toEqual({ commits: 1, writes: 7 })
    })

    test('the duration of a commit is counted in seconds', async () => {
      const { users, commits } = await openCounted()
      const startedAt = performance.now()
      await users.create(newUser())
      const tookSeconds = (performance.now() - startedAt) / 1000
      const { seconds } = await commits()
      expect(seconds.sum).toBeGreaterThan(0)
      expect(seconds.sum).toBeLessThan(tookSeconds)
    })

    test('a refused write does not count, and a commit of nothing else is none', async () => {
      const { users, counts } = await openCounted()
      const taken = newUser()
      const { id } = await users.create(taken)
      expect(await codesOf([users.create(taken)])).toEqual(['email_taken'])
      expect(await codesOf([users.update(id, { name: 'Bob' }, ['other'])])).toEqual([
        'version_mismatch',
      ])
      expect(await counts()).toEqual({ commits: 1, writes: 1 })
      const codes = await codesOf([
        users.create(newUser()),
        users.create(taken),
        users.create(newUser()),
      ])
      expect(codes).toEqual(['done', 'email_taken', 'done'])
      expect((await counts()).writes).toBe(3)
    })

    test('a write that finds nothing to change counts, because it is done', async () => {
      const { users, counts } = await openCounted()
      expect(await users.delete(1)).toBe(false)
      expect(await users.update(1, { name: 'Bob' })).toBeUndefined()
      expect(await counts()).toEqual({ commits: 2, writes: 2 })
    })

    test('the writes in all commits are those that were acknowledged, also of many at once', async () => {
      const { users, counts } = await openCounted()
      const same = Array.from({ length: 5 }, () => users.create({ ...newUser(), email: 'a@b.co' }))
      const claimed = claim()
      const sameKey = Array.from({ length: 5 }, () => users.create(newUser(), claimed))
      const codes = await codesOf([...createMany(users, 600), ...same, ...sameKey])
      const acknowledged = codes.filter(code => code === 'done').length
      expect(acknowledged).toBe(602)
      const { writes, commits } = await counts()
      expect(writes).toBe(acknowledged)
      expect(commits).toBeLessThan(acknowledged)
    })

    test('waitingWrites is exact while a lock of another process holds writes up', async () => {
      const { users, bans, databaseUrl, waitingWrites, counts } = await openCounted()
      const { id } = await users.create(newUser())
      const { release } = await holdWrites(databaseUrl)
      const writes = [
        ...createMany(users, 5),
        users.update(id, { name: 'Bob' }),
        users.update(id, { name: 'Eve' }),
        users.delete(id),
        bans.lift({}),
      ]
      let ended = 0
      for (const write of writes) {
        const end = () => void ended++
        write.then(end, end)
      }
      expect(await waitingWrites()).toBe(writes.length)
      // On a busy machine some of them may have been refused already.
      for (let look = 0; look < 20; look++) {
        await sleep(5)
        const waiting = waitingWrites()
        expect(await waiting).toBe(writes.length - ended)
      }
      const before = await counts()
      expect(before).toEqual({ commits: 1, writes: 1 })
      await release()
      const codes = await codesOf(writes)
      expect(await waitingWrites()).toBe(0)
      expect((await counts()).writes).toBe(1 + codes.filter(code => code === 'done').length)
    })

    test('writes that a lock kept from being committed do not count', async () => {
      const { users, databaseUrl, waitingWrites, counts } = await openCounted()
      const { release } = await holdWrites(databaseUrl)
      expect(new Set(await codesOf(createMany(users, 3)))).toEqual(new Set(['storage_unavailable']))
      expect(await waitingWrites()).toBe(0)
      expect(await counts()).toEqual({ commits: 0, writes: 0 })
      await release()
      await users.create(newUser())
      expect(await counts()).toEqual({ commits: 1, writes: 1 })
    })

    test('report answers while the storage closes and afterwards', async () => {
      const { users, close, report, waitingWrites } = await openCounted()
      const created = createMany(users, 3)
      const closed = close()
      await report()
      await closed
      expect(await codesOf(created)).toEqual(['done', 'done', 'done'])
      expect(await waitingWrites()).toBe(0)
    })
  })
}

let serial = 0

function newUser() {
  serial++
  return { name: 'Ann', email: `ann${serial}@example.com`, passwordDigest: null }
}

const claim = () => ({ keyHash: Buffer.alloc(32, 7), fingerprint: 'same' })

const createMany = (
  { create }: Pick<Storage['users'], 'create'>,
  count: number,
): Promise<StoredUser>[] => Array.from({ length: count }, () => create(newUser()))

async function codesOf(writes: readonly Promise<unknown>[]): Promise<unknown[]> {
  const results = await Promise.allSettled(writes)
  return results.map(result => (result.status === 'rejected' ? result.reason.code : 'done'))
}
