import { describe, expect, test } from 'vitest'
import type { Commit, Storage } from '../../src/storage/storage.ts'
import type { StoredUser } from '../../src/users/user-repository.ts'
import { among, createUser } from '../support/create-user.ts'
import { holdWrites } from '../support/sql.ts'
import { openStored } from '../support/stored.ts'
import { until } from '../support/until.ts'
import { ALL } from '../support/user-scan.ts'

/** The storage with what its report says in short. */
async function openCounted() {
  const commits: Commit[] = []
  const onCommit = (commit: Commit) => void commits.push(commit)
  const { storage, databaseUrl } = await openStored({ onCommit })
  // The first process after a start of the machine writes what time it is.
  await storage.bans.now()
  commits.length = 0
  return {
    ...storage,
    ...{ databaseUrl, commits },
    waitingWrites: () => storage.report().waitingWrites,
    counts: () => ({
      commits: commits.length,
      writes: commits.reduce((sum, { writes }) => sum + writes, 0),
    }),
  }
}

describe('Storage.report', () => {
  test('each write of any kind that comes alone is one commit, also if it finds nothing to change', async () => {
    const { users, bans, apiKeys, counts, close, report } = await openCounted()
    expect(counts()).toEqual({ commits: 0, writes: 0 })
    const ban = { rule: 'login', clientKey: 'ann', endsAt: Date.now() + 60_000, lastsMs: 60_000 }
    const { id } = await createUser(users, { ...newUser(), passwordDigest: '$argon2id$old' })
    const writes = [
      () => users.update(id, { name: 'Bob' }),
      () => users.replaceDigest(id, { previous: '$argon2id$old', next: '$argon2id$new' }),
      () => users.delete(id),
      () => users.delete(id),
      () => users.deleteAll([id]),
      () => bans.save(ban),
      () => bans.lift({}),
      () => apiKeys.recordUses([{ hash: Buffer.alloc(32), usedAt: 1 }]),
      () => createUser(users, newUser(), claim()),
    ]
    for (const [index, write] of writes.entries()) {
      await write()
      expect(counts()).toEqual({ commits: index + 2, writes: index + 2 })
    }
    await close()
    expect(report()).toMatchObject({ waitingWrites: 0 })
  })

  test('writes of one turn share one commit, whose seconds are counted, and reads are none', async () => {
    const { users, counts, commits } = await openCounted()
    await Promise.all(createMany(users, 7))
    expect(commits).toEqual([{ writes: 7, seconds: expect.any(Number) }])
    expect(commits[0]?.seconds).toBeGreaterThan(0)
    await users.find(1)
    await users.isEmailTaken('nobody@example.com')
    expect(counts()).toEqual({ commits: 1, writes: 7 })
  })

  test('a listener of commits that throws changes no answer, and is warned of', async () => {
    const warnings: unknown[] = []
    const { storage } = await openStored({
      onCommit: () => {
        throw new Error('full')
      },
      onWarning: message => warnings.push(message),
    })
    expect(await codesOf(createMany(storage.users, 4))).toEqual(Array(4).fill('done'))
    expect(await storage.users.delete(1)).toBe(true)
    expect((await storage.users.list(ALL)).total).toBe(3)
    expect(new Set(warnings)).toEqual(new Set(['a commit cannot be reported']))
  })

  test('the writes in all commits are those that were acknowledged, and a commit of none is none', async () => {
    const { users, counts } = await openCounted()
    const taken = newUser()
    const { id } = await createUser(users, taken)
    expect(await codesOf([createUser(users, taken)])).toEqual(['email_taken'])
    const update = users.update(id, { name: 'Bob' }, among('other'))
    expect(await codesOf([update])).toEqual(['version_mismatch'])
    expect(counts()).toEqual({ commits: 1, writes: 1 })
    const made = await users.create([newUser(), taken, newUser(), taken])
    expect(made.filter(user => user !== undefined)).toHaveLength(2)
    expect(counts()).toEqual({ commits: 2, writes: 3 })
    expect(await users.create([taken])).toEqual([undefined])
    expect(counts()).toEqual({ commits: 2, writes: 3 })
    const same = Array.from({ length: 5 }, () =>
      createUser(users, { ...newUser(), email: 'a@b.co' }),
    )
    const sameKey = Array.from({ length: 5 }, () => createUser(users, newUser(), claim()))
    const codes = await codesOf([...createMany(users, 600), ...same, ...sameKey])
    expect(codes.filter(code => code === 'done')).toHaveLength(602)
    const { writes, commits } = counts()
    expect(writes).toBe(605)
    expect(commits).toBeLessThan(603)
  })

  test('writes wait while another process holds a lock, and those that it refuses are not counted', async () => {
    const { users, bans, databaseUrl, waitingWrites, counts } = await openCounted()
    const { id } = await createUser(users, newUser())
    const { release } = await holdWrites(databaseUrl)
    const writeAll = () => [
      ...createMany(users, 5),
      users.update(id, { name: 'Bob' }),
      users.delete(id),
      bans.lift({}),
    ]
    const refused = writeAll()
    // A lift first asks what time it is.
    await until(() => waitingWrites() === refused.length)
    expect(new Set(await codesOf(refused))).toEqual(new Set(['storage_unavailable']))
    expect(waitingWrites()).toBe(0)
    expect(counts()).toEqual({ commits: 1, writes: 1 })
    const waiting = writeAll()
    await until(() => waitingWrites() === waiting.length)
    await release()
    // On a busy machine some of them may have been refused already.
    const done = (await codesOf(waiting)).filter(code => code === 'done')
    expect(waitingWrites()).toBe(0)
    expect(counts().writes).toBe(1 + done.length)
  })
})

let serial = 0

function newUser() {
  serial++
  return { name: 'Ann', email: `ann${serial}@example.com`, passwordDigest: null }
}

const claim = () => ({ keyHash: Buffer.alloc(32, 7), fingerprint: 'same' })

function createMany(users: Storage['users'], count: number): Promise<StoredUser>[] {
  return Array.from({ length: count }, () => createUser(users, newUser()))
}

async function codesOf(writes: readonly Promise<unknown>[]): Promise<unknown[]> {
  const results = await Promise.allSettled(writes)
  return results.map(result => (result.status === 'rejected' ? result.reason.code : 'done'))
}
