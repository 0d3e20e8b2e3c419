import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { idOf } from '../../src/users/stored-user.ts'
import {
  IDEMPOTENCY_TTL_MS,
  type NewUser,
  type StoredUser,
  type UserQuery,
  type UserRepository,
} from '../../src/users/user-repository.ts'
import { among, createUser } from '../support/create-user.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openStored } from '../support/stored.ts'
import { ALL, positionOf, type ShownUser, SORTS } from '../support/user-scan.ts'

let serial = 0

function newUser(fields: Partial<NewUser> = {}): NewUser {
  serial++
  return { name: 'Ann', email: `ann${serial}@example.com`, passwordDigest: null, ...fields }
}

const named = (name: string) => newUser({ name })

const FIRST: UserQuery = { ...ALL, withTotal: false }

async function listed(repository: UserRepository, query: Partial<UserQuery> = {}) {
  return JSON.parse((await repository.list({ ...FIRST, ...query })).json) as ShownUser[]
}

function shown({ json }: StoredUser): ShownUser {
  return JSON.parse(json)
}

/** What became of each call: its value, or the code of its error. */
async function outcomesOf(calls: readonly Promise<unknown>[]): Promise<unknown[]> {
  return (await Promise.allSettled(calls)).map(result => {
    if (result.status === 'rejected') return (result.reason as { code: string }).code
    const { value } = result
    return typeof value === 'object' ? shown(value as StoredUser).name : value
  })
}

/** An empty repository, and the clock that it has its times from. */
async function opened() {
  const clock = createFakeClock()
  const { storage, again } = await openStored({ now: clock.now })
  return { repository: storage.users, again, clock }
}

describe('UserRepository', () => {
  test('replaceDigest replaces only the given digest, once, and clients cannot see it', async () => {
    const { repository, clock } = await opened()
    const user = await createUser(repository, newUser({ passwordDigest: '$1' }))
    const other = await createUser(repository, newUser())
    const revision = await repository.revision()
    clock.advance(1000)
    const replace = (id: number, previous: string, next: string) =>
      repository.replaceDigest(id, { previous, next })
    const results = await Promise.all(['$2', '$3'].map(next => replace(user.id, '$1', next)))
    expect(results.toSorted()).toEqual([false, true])
    const now = results[0] ? '$2' : '$3'
    expect(await replace(other.id, '$1', '$4')).toBe(false)
    expect(await replace(other.id + 1, now, '$4')).toBe(false)
    expect(await repository.findWithDigest(user.id)).toEqual({ user, passwordDigest: now })
    const without = { user: other, passwordDigest: null }
    expect(await repository.findWithDigest(other.id)).toEqual(without)
    expect(await repository.findWithDigest(other.id + 1)).toBeUndefined()
    expect(await repository.revision()).toBe(revision)
  })

  test('of many updates at once by several processes, one that compared the same digest succeeds, and each has a version of its own', async () => {
    const { repository, again } = await opened()
    const processes = [repository, (await again()).users, (await again()).users]
    const at = (index: number) => processes[index % processes.length] ?? repository
    const user = await createUser(repository, newUser({ passwordDigest: null }))
    const count = Array.from({ length: 20 }, (_, index) => index)
    const judged = await Promise.all(
      count.map(index =>
        at(index).update(user.id, { passwordDigest: `$${index}`, judgedDigest: null }),
      ),
    )
    const changed = judged.filter(result => result !== 'digest_changed')
    expect(changed).toEqual([await repository.find(user.id)])
    const renamed = await Promise.all(
      count.map(index => at(index).update(user.id, { name: `Name ${index}` })),
    )
    const versions = [user, ...changed, ...renamed].map(each => (each as StoredUser).version)
    expect(new Set(versions).size).toBe(22)
  })

  test('of a delete and updates with one version by several processes, one succeeds', async () => {
    const { repository, again } = await opened()
    const other = (await again()).users
    for (let round = 0; round < 10; round++) {
      const { id, version } = await createUser(repository, newUser())
      const results = await Promise.allSettled([
        repository.update(id, { name: 'Bea' }, among(version)),
        other.update(id, { name: 'Cid' }, among(version)),
        other.delete(id, among(version)),
      ])
      const found = await repository.find(id)
      const done = results.flatMap(result => (result.status === 'fulfilled' ? [result.value] : []))
      expect(done.filter(value => value !== undefined && value !== false)).toEqual([found ?? true])
    }
  })

  test('of several processes that claim keys that have expired, one gets each', async () => {
    const { repository, again, clock } = await opened()
    const claims = Array.from({ length: 9 }, () => ({ keyHash: randomBytes(32), fingerprint: 'f' }))
    await Promise.all(claims.map(claim => createUser(repository, newUser(), claim)))
    clock.advance(IDEMPOTENCY_TTL_MS)
    const processes = [repository, (await again()).users, (await again()).users]
    const creates = processes.flatMap(users =>
      claims.toReversed().map(claim => createUser(users, newUser(), claim)),
    )
    const outcomes = await outcomesOf(creates)
    expect(outcomes.toSorted()).toEqual([
      ...Array(9).fill('Ann'),
      ...Array(18).fill('idempotency_key_in_use'),
    ])
  })

  test('list is JSON without white space, and each user begins with its id, whatever the names contain', async () => {
    const { repository } = await opened()
    const names = ['{"id":7,"', ',{"id":7}', '}],[{', 'a  b', '\\', '\\"{"id":7', '\u2028']
    const users: StoredUser[] = []
    for (const name of names) users.push(await createUser(repository, named(name)))
    const { json } = await repository.list(FIRST)
    expect(json).toBe(`[${users.map(user => user.json).join(',')}]`)
    expect(json).toBe(JSON.stringify(JSON.parse(json)))
    expect(users.map(user => idOf(user.json))).toEqual(users.map(({ id }) => id))
    expect((await repository.list({ ...FIRST, limit: 6 })).next?.id).toBe(users[5]?.id)
  })

  test('calls at the same time get what each of them gets alone', async () => {
    const { repository } = await opened()
    const users = await Promise.all(
      Array.from({ length: 60 }, (_, nth) => createUser(repository, named(`N${nth % 7}`))),
    )
    const ids = [...users.map(({ id }) => id), 999, 998]
    const emails = users.map(user => shown(user).email)
    const queries: Partial<UserQuery>[] = SORTS.flatMap(sort => [
      { sort, limit: 7 },
      { sort, limit: 7, withTotal: true },
      { sort, limit: 7, start: { offset: 50 } },
      ...[0, 1, 2, 30, 59, 60].map(offset => ({ sort, limit: 100, start: { offset } })),
      { sort, limit: 7, filters: { name: 'n3' }, withTotal: true },
      { sort, limit: 7, filters: { emails: emails.slice(5, 7) } },
      {
        sort,
        limit: 7,
        filters: { ids: [...ids.slice(3, 20), 999], name: 'n3' },
        withTotal: true,
      },
      ...users.slice(0, 5).map(user => ({ sort, limit: 7, start: positionOf(shown(user), sort) })),
    ])
    const calls = [
      ...[...ids, ...ids].map(id => () => repository.find(id)),
      ...ids.map(id => () => repository.findWithDigest(id)),
      ...[...emails, 'nobody@example.com'].map(email => () => repository.findByEmail(email)),
      ...emails.map((email, nth) => () => repository.isEmailTaken(email, users[nth + 1]?.id)),
      ...[...queries, ...queries].map(query => () => repository.list({ ...FIRST, ...query })),
    ]
    // No more at once than a busy server answers within the time of a call.
    for (let from = 0; from < calls.length; from += 100) {
      const some = calls.slice(from, from + 100)
      const together = await Promise.all(some.map(call => call()))
      for (const [nth, call] of some.entries()) expect(together[nth]).toEqual(await call())
    }
  })

  test('create makes none of its users if one cannot be written', async () => {
    const { repository } = await opened()
    const revision = await repository.revision()
    const batch = [newUser(), newUser(), newUser({ passwordDigest: 'no digest' }), newUser()]
    const beside = createUser(repository, newUser())
    await expect(repository.create(batch)).rejects.toThrow()
    const { id } = await beside
    expect((await listed(repository)).map(user => user.id)).toEqual([id])
    expect(await repository.revision()).not.toBe(revision)
    await repository.create(batch.toSpliced(2, 1))
    expect(await listed(repository)).toHaveLength(4)
  })

  test('one refused update or delete does not fail its neighbours', async () => {
    const { repository, clock } = await opened()
    const created = await Promise.all(
      Array.from({ length: 6 }, () => createUser(repository, newUser())),
    )
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = created.map(({ id }) => id)
    const untilEndMs = Date.parse('9999-12-31T23:59:59.999Z') - clock.now()
    clock.advance(untilEndMs)
    const { id: last } = await createUser(repository, newUser())
    clock.advance(-untilEndMs)
    const outcomes = await outcomesOf([
      repository.update(a, { name: 'New' }),
      repository.update(b, { name: 'New' }, among('another version', 'x y')),
      repository.update(b, { name: 'New' }, among()),
      repository.update(c, { email: shown(created[0] as StoredUser).email.toUpperCase() }),
      repository.update(999, { name: 'New' }),
      repository.update(last, { name: 'New' }),
      repository.update(d, { name: 'New', judgedDigest: '$other' }),
      repository.update(d, { name: 'New', judgedDigest: '$other' }, among('another version')),
      repository.update(d, { email: shown(created[0] as StoredUser).email, judgedDigest: null }),
      repository.update(d, { passwordDigest: '$new' }),
      repository.delete(e, among('another version')),
      repository.delete(999),
      repository.delete(f),
      repository.delete(f),
    ])
    expect(outcomes).toEqual([
      ...['New', 'version_mismatch', 'version_mismatch', 'email_taken', undefined],
      ...['storage_damaged', 'digest_changed', 'version_mismatch', 'email_taken', 'Ann'],
      ...['version_mismatch', false, true, false],
    ])
    expect((await listed(repository)).map(({ id }) => id)).toEqual([a, b, c, d, e, last])
  })
})
