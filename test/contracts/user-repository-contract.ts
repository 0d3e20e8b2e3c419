import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { idOf, splitUsers } from '../../src/users/user-json.ts'
import {
  IDEMPOTENCY_TTL_MS,
  type IdempotencyClaim,
  type NewUser,
  SORT_KEYS,
  type StoredUser,
  type UserQuery,
  type UserRepository,
} from '../../src/users/user-repository.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { byCodePoints, type ShownUser } from '../support/user-order.ts'

export interface OpenedRepository {
  readonly repository: UserRepository
  close(): Promise<void>
}

export interface RepositoryHarness {
  readonly name: string
  /** An empty repository whose times come from `now`. */
  open(now: () => number): Promise<OpenedRepository>
}

let serial = 0

function newUser(fields: Partial<NewUser> = {}): NewUser {
  serial++
  return { name: 'Ann', email: `ann${serial}@example.com`, passwordDigest: null, ...fields }
}

const FIRST: UserQuery = {
  sort: { by: 'id', descending: false },
  filters: {},
  words: [],
  limit: 100,
  start: { offset: 0 },
  withTotal: false,
}

const SORTS = SORT_KEYS.flatMap(by => [
  { by, descending: false },
  { by, descending: true },
])

function newClaim(): IdempotencyClaim {
  return { keyHash: randomBytes(32), fingerprint: 'same' }
}

async function listed(repository: UserRepository, query: Partial<UserQuery> = {}) {
  const { json } = await repository.list({ ...FIRST, ...query })
  return JSON.parse(json) as { id: number }[]
}

function shown({ json }: StoredUser): Record<string, unknown> {
  return JSON.parse(json)
}

async function digestOf(repository: UserRepository, { id }: StoredUser) {
  return (await repository.findDigests([id])).get(id)
}

/** The place right after a user in a sort. */
function positionOf(user: StoredUser, { by }: UserQuery['sort']): UserQuery['start'] {
  const key = by === 'id' ? '' : String(shown(user)[by]).toLowerCase()
  return { key: by.endsWith('_at') ? String(shown(user)[by]) : key, id: user.id }
}

function defined<T>(value: T | 'digest_changed' | undefined): T {
  if (value === undefined || value === 'digest_changed') throw new Error('nothing was found')
  return value
}

/**
 * The tests that every adapter of `UserRepository` must pass, besides those of the service in `test/users`: what HTTP does not
 * show.
 */
export function describeUserRepository({ name, open }: RepositoryHarness): void {
  async function opened() {
    const clock = createFakeClock()
    const { repository, close } = await open(clock.now)
    let isClosed = false
    const closeOnce = async () => {
      if (!isClosed) await close()
      isClosed = true
    }
    onTestFinished(closeOnce)
    return { repository, clock, close: closeOnce }
  }

  describe(`UserRepository in ${name}`, () => {
    test('an e-mail is free again after its user is deleted or has another one', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ email: 'a@example.com' }))
      await repository.update(user.id, { email: 'b@example.com' })
      const next = await repository.create(newUser({ email: 'a@example.com' }))
      await repository.delete(next.id)
      await expect(repository.create(newUser({ email: 'a@example.com' }))).resolves.toBeDefined()
    })

    test('find returns the created user, and undefined for an unknown id', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser())
      expect(await repository.find(user.id)).toEqual(user)
      expect(await repository.find(user.id + 1)).toBeUndefined()
      expect(await repository.find(Number.MAX_SAFE_INTEGER)).toBeUndefined()
    })

    test('findDigests distinguishes a digest, no digest and no user, for any number of ids', async () => {
      const { repository } = await opened()
      const withDigest = await repository.create(newUser({ passwordDigest: '$argon2id$x' }))
      const without = await repository.create(newUser())
      const ids = [without.id, withDigest.id, without.id + 1, withDigest.id]
      expect(await repository.findDigests(ids)).toEqual(
        new Map([
          [without.id, null],
          [withDigest.id, '$argon2id$x'],
        ]),
      )
      expect(await repository.findDigests([])).toEqual(new Map())
      const users = Array.from({ length: 1000 }, (_, index) =>
        newUser({ passwordDigest: `$${index}` }),
      )
      const created = await Promise.all(users.map(user => repository.create(user)))
      const digests = await repository.findDigests(created.map(({ id }) => id))
      expect(created.map(({ id }) => digests.get(id))).toEqual(
        users.map(({ passwordDigest }) => passwordDigest),
      )
    })

    test('findByEmail ignores case, and returns the user like find, with its digest', async () => {
      const { repository } = await opened()
      const withDigest = await repository.create(
        newUser({ email: 'Ann@Example.com', passwordDigest: '$argon2id$x' }),
      )
      const without = await repository.create(newUser({ email: 'bea@example.com' }))
      expect(await repository.findByEmail('aNN@eXAMPLE.COM')).toEqual({
        user: await repository.find(withDigest.id),
        passwordDigest: '$argon2id$x',
      })
      expect(await repository.findByEmail('BEA@example.com')).toEqual({
        user: without,
        passwordDigest: null,
      })
      expect(await repository.findByEmail('nn@example.com')).toBeUndefined()
      expect(await repository.findByEmail('%@example.com')).toBeUndefined()
    })

    test('replaceDigest replaces only the given digest, and clients cannot see it', async () => {
      const { repository, clock } = await opened()
      const user = await repository.create(newUser({ passwordDigest: '$1' }))
      const other = await repository.create(newUser())
      const revision = await repository.revision()
      clock.advance(1000)
      expect(await repository.replaceDigest(user.id, { previous: '$1', next: '$2' })).toBe(true)
      expect(await digestOf(repository, user)).toBe('$2')
      for (const [id, previous] of [
        [user.id, '$1'],
        [other.id, '$1'],
        [other.id + 1, '$2'],
      ] as const) {
        expect(await repository.replaceDigest(id, { previous, next: '$3' })).toBe(false)
      }
      expect(await digestOf(repository, user)).toBe('$2')
      expect(await digestOf(repository, other)).toBeNull()
      expect(await repository.find(user.id)).toEqual(user)
      expect(await repository.revision()).toBe(revision)
    })

    test('only one of many simultaneous calls of replaceDigest succeeds', async () => {
      const { repository } = await opened()
      const users = await Promise.all(
        Array.from({ length: 20 }, () => repository.create(newUser({ passwordDigest: '$old' }))),
      )
      const replacements = users.flatMap(user => [
        { user, next: '$a' },
        { user, next: '$b' },
      ])
      const results = await Promise.all(
        replacements.map(({ user, next }) =>
          repository.replaceDigest(user.id, { previous: '$old', next }),
        ),
      )
      const successes = replacements.filter((_, index) => results[index])
      expect(new Set(successes.map(({ user }) => user.id)).size).toBe(20)
      expect(successes).toHaveLength(20)
      for (const { user, next } of successes) expect(await digestOf(repository, user)).toBe(next)
    })

    test('a change that compared a digest is repeated once replaceDigest has replaced it', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ passwordDigest: '$1' }))
      await repository.replaceDigest(user.id, { previous: '$1', next: '$2' })
      const change = { passwordDigest: '$3', judgedDigest: '$1' }
      expect(await repository.update(user.id, change)).toBe('digest_changed')
    })

    test.each([
      ['another', '$2'],
      ['none', null],
    ])(
      'update changes nothing if the compared digest has meanwhile been replaced by %s',
      async (_, now) => {
        const { repository } = await opened()
        const user = await repository.create(newUser({ name: 'Ann', passwordDigest: '$1' }))
        const other = await repository.create(newUser({ email: 'other@example.com' }))
        const changed = await repository.update(user.id, {
          passwordDigest: now,
          judgedDigest: '$1',
        })
        expect(await repository.find(user.id)).toEqual(changed)
        const late = { name: 'Bea', email: 'other@example.com', judgedDigest: '$1' }
        expect(await repository.update(user.id, { ...late, passwordDigest: '$3' })).toBe(
          'digest_changed',
        )
        expect(await repository.update(user.id, late)).toBe('digest_changed')
        expect(await repository.find(user.id)).toEqual(changed)
        expect(await digestOf(repository, user)).toBe(now)
        const refused = { code: 'version_mismatch' }
        const old = [user.version]
        await expect(repository.update(user.id, late, old)).rejects.toMatchObject(refused)
        expect(await repository.update(other.id + 1, late)).toBeUndefined()
        await expect(
          repository.update(user.id, { ...late, judgedDigest: now }),
        ).rejects.toMatchObject({ code: 'email_taken' })
      },
    )

    test('only one of many simultaneous updates that compared the same digest succeeds', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ passwordDigest: null }))
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          repository.update(user.id, { passwordDigest: `$${index}`, judgedDigest: null }),
        ),
      )
      expect(results.filter(result => result !== 'digest_changed')).toEqual([
        await repository.find(user.id),
      ])
    })

    test('simultaneous updates each get a different version', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser())
      const changes = await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          repository.update(user.id, { name: `Name ${index}` }),
        ),
      )
      const versions = [user, ...changes].map(change => defined(change).version)
      expect(new Set(versions).size).toBe(21)
    })

    test('list is JSON without white space, and each user begins with its id, whatever the names contain', async () => {
      const { repository } = await opened()
      const names = ['{"id":7,"', ',{"id":7}', '}],[{', 'a  b', '\\', '\\"{"id":7', '\u2028']
      const users: StoredUser[] = []
      for (const name of names) users.push(await repository.create(newUser({ name })))
      const { json } = await repository.list(FIRST)
      expect(json).toBe(`[${users.map(user => user.json).join(',')}]`)
      expect(json).toBe(JSON.stringify(JSON.parse(json)))
      expect(splitUsers(json)).toEqual(users.map(user => user.json))
      for (const user of users) {
        expect(user.json).toMatch(new RegExp(`^\\{"id":${user.id},"name":`))
        expect(idOf(user.json)).toBe(user.id)
      }
      const page = await repository.list({ ...FIRST, limit: names.length - 1 })
      expect(splitUsers(page.json)).toHaveLength(names.length - 1)
      expect(page.next?.id).toBe(users.at(-2)?.id)
    })

    test('list finds pages behind many users, and users of filters that match many', async () => {
      const { repository, clock } = await opened()
      const created: StoredUser[] = []
      for (let batch = 0; batch < 21; batch++) {
        clock.advance(1000)
        const users = Array.from({ length: 500 }, (_, count) =>
          repository.create(newUser({ name: `Name ${(count * 7919) % 300}` })),
        )
        created.push(...(await Promise.all(users)))
      }
      const users = created.map(user => shown(user) as unknown as ShownUser)
      const filters = { created_after: '2026-01-31T12:00:00.000Z' }
      for (const sort of SORTS) {
        const ids = users.toSorted(byCodePoints(sort)).map(({ id }) => id)
        const last = await repository.list({
          ...FIRST,
          sort,
          start: { offset: 10_450 },
          withTotal: true,
        })
        expect(splitUsers(last.json).map(idOf)).toEqual(ids.slice(10_450))
        expect(last).toMatchObject({ next: undefined, total: 10_500 })
        const first = await repository.list({ ...FIRST, filters, sort, withTotal: true })
        expect(splitUsers(first.json).map(idOf)).toEqual(ids.slice(0, 100))
        expect(first.total).toBe(10_500)
        const second = await listed(repository, { filters, sort, start: defined(first.next) })
        expect(second.map(({ id }) => id)).toEqual(ids.slice(100, 200))
      }
    })

    test('revision changes with each change, stays if nothing changes, and is that of the list', async () => {
      const { repository } = await opened()
      const seen = [await repository.revision()]
      const note = async () => {
        seen.push(await repository.revision())
        expect((await repository.list(FIRST)).revision).toBe(seen.at(-1))
      }
      const user = await repository.create(newUser({ name: 'Ann' }))
      await note()
      await repository.update(user.id, { name: 'Bea' })
      await note()
      await repository.delete(user.id)
      await note()
      expect(new Set(seen).size).toBe(4)
      const other = await repository.create(newUser({ name: 'Ann' }))
      const before = await repository.revision()
      await repository.update(other.id, { name: 'Ann' })
      await repository.delete(user.id)
      await repository.create(newUser({ email: shown(other).email as string })).catch(() => {})
      expect(await repository.revision()).toBe(before)
    })

    test('create rejects a stored key before it checks the e-mail', async () => {
      const { repository } = await opened()
      const claim = newClaim()
      const user = newUser()
      await repository.create(user, claim)
      await expect(repository.create(user, claim)).rejects.toMatchObject({
        code: 'idempotency_key_in_use',
      })
      expect(await listed(repository)).toHaveLength(1)
    })

    test('a rejected create stores no key', async () => {
      const { repository } = await opened()
      const claim = newClaim()
      const user = newUser()
      await repository.create(user)
      await expect(repository.create(user, claim)).rejects.toMatchObject({ code: 'email_taken' })
      expect(await repository.findIdempotentCreate(claim.keyHash)).toBeUndefined()
      await expect(repository.create(newUser(), claim)).resolves.toBeDefined()
    })

    test('delete keeps the key as used and deletes its stored user', async () => {
      const { repository } = await opened()
      const claim = newClaim()
      const user = await repository.create(newUser(), claim)
      const stored = { fingerprint: claim.fingerprint, user }
      expect(await repository.findIdempotentCreate(claim.keyHash)).toEqual(stored)
      expect(await repository.findIdempotentCreate(newClaim().keyHash)).toBeUndefined()
      await repository.delete(user.id)
      expect(await repository.findIdempotentCreate(claim.keyHash)).toBe('user_deleted')
      await expect(repository.create(newUser(), claim)).rejects.toMatchObject({
        code: 'idempotency_key_in_use',
      })
    })

    test('a key is free again after its time, whether or not its user was deleted', async () => {
      const { repository, clock } = await opened()
      const claims = [newClaim(), newClaim()]
      const users = []
      for (const claim of claims) users.push(await repository.create(newUser(), claim))
      await repository.delete(defined(users[0]).id)
      clock.advance(IDEMPOTENCY_TTL_MS - 1)
      for (const { keyHash } of claims) {
        expect(await repository.findIdempotentCreate(keyHash)).toBeDefined()
      }
      clock.advance(1)
      for (const claim of claims) {
        expect(await repository.findIdempotentCreate(claim.keyHash)).toBeUndefined()
        await expect(repository.create(newUser(), claim)).resolves.toBeDefined()
      }
    })

    test('calls at the same time get what each of them gets alone', async () => {
      const { repository } = await opened()
      const users = await Promise.all(
        Array.from({ length: 60 }, (_, nth) => repository.create(newUser({ name: `N${nth % 7}` }))),
      )
      const ids = [...users.map(({ id }) => id), 999, 998]
      const emails = users.map(({ json }) => (JSON.parse(json) as { email: string }).email)
      const queries: Partial<UserQuery>[] = SORTS.flatMap(sort => [
        { sort, limit: 7 },
        { sort, limit: 7, withTotal: true },
        { sort, limit: 7, start: { offset: 50 } },
        { sort, limit: 7, filters: { name: 'n3' }, withTotal: true },
        { sort, limit: 3, filters: { name: 'n4' } },
        { sort, limit: 7, filters: { email: emails[5] } },
        ...users.slice(0, 5).map(user => ({ sort, limit: 7, start: positionOf(user, sort) })),
      ])
      const calls = [
        ...[...ids, ...ids].map(id => () => repository.find(id)),
        ...ids.map(id => () => repository.findDigests([id])),
        ...[...emails, 'nobody@example.com'].map(email => () => repository.findByEmail(email)),
        ...emails.map((email, nth) => () => repository.isEmailTaken(email, users[nth + 1]?.id)),
        ...[...queries, ...queries].map(query => () => repository.list({ ...FIRST, ...query })),
      ]
      const together = await Promise.all(calls.map(call => call()))
      for (const [nth, call] of calls.entries()) expect(together[nth]).toEqual(await call())
    })

    test('one refused create does not fail its neighbours, nor does one with an equal e-mail or key', async () => {
      const { repository } = await opened()
      const taken = newUser()
      await repository.create(taken)
      const [twice, other, kept] = [newUser(), newUser(), newClaim()]
      await repository.create(newUser(), kept)
      const claim = newClaim()
      const results = await Promise.allSettled([
        repository.create(newUser()),
        repository.create(taken),
        repository.create(twice),
        repository.create({ ...twice, email: twice.email.toUpperCase() }),
        repository.create(newUser(), kept),
        repository.create(taken, newClaim()),
        repository.create(other, claim),
        repository.create(newUser(), claim),
        repository.create(newUser()),
      ])
      const told = results.map(result =>
        result.status === 'fulfilled' ? 'created' : (result.reason as { code: string }).code,
      )
      const [first, again, oneCase, otherCase, used, both, oneKey, sameKey, last] = told
      expect([first, again, used, both, last]).toEqual([
        'created',
        'email_taken',
        'idempotency_key_in_use',
        'email_taken',
        'created',
      ])
      // Either may be the first.
      expect([oneCase, otherCase].sort()).toEqual(['created', 'email_taken'])
      expect([oneKey, sameKey].sort()).toEqual(['created', 'idempotency_key_in_use'])
      expect(await listed(repository)).toHaveLength(6)
    })

    test('one refused update or delete does not fail its neighbours', async () => {
      const { repository } = await opened()
      const users = await Promise.all([1, 2, 3, 4, 5, 6].map(() => repository.create(newUser())))
      const [a, b, c, d, e, f] = users.map(({ id }) => id) as [
        number,
        number,
        number,
        number,
        number,
        number,
      ]
      const email = (JSON.parse(users[0]?.json ?? '') as { email: string }).email
      const results = await Promise.allSettled([
        repository.update(a, { name: 'New' }),
        repository.update(b, { name: 'New' }, ['another version', 'x y']),
        repository.update(b, { name: 'New' }, []),
        repository.update(c, { email: email.toUpperCase() }),
        repository.update(999, { name: 'New' }),
        repository.update(d, { name: 'New', judgedDigest: '$other' }),
        repository.update(d, { passwordDigest: '$new' }),
        repository.delete(e, ['another version']),
        repository.delete(999),
        repository.delete(f),
        repository.delete(f),
      ])
      const told = results.map(result => {
        if (result.status === 'rejected') return (result.reason as { code: string }).code
        const { value } = result
        return typeof value === 'object' ? shown(value).name : value
      })
      expect(told).toEqual([
        ...['New', 'version_mismatch', 'version_mismatch', 'email_taken', undefined],
        ...['digest_changed', 'Ann', 'version_mismatch', false, true, false],
      ])
      expect((await listed(repository)).map(({ id }) => id)).toEqual([a, b, c, d, e])
    })

    test('an update at the end of the year 9999 fails alone', async () => {
      const { repository, clock } = await opened()
      const untilEndMs = Date.parse('9999-12-31T23:59:59.999Z') - clock.now()
      clock.advance(untilEndMs)
      const last = await repository.create(newUser())
      clock.advance(-untilEndMs)
      const other = await repository.create(newUser())
      const [changed, refused] = await Promise.allSettled([
        repository.update(other.id, { name: 'New' }),
        repository.update(last.id, { name: 'New' }),
      ])
      expect(changed).toMatchObject({ status: 'fulfilled' })
      expect(refused).toMatchObject({ reason: { code: 'storage_damaged' } })
      expect(await repository.find(last.id)).toEqual(last)
    })

    test('list finds nothing for filters that no user can have', async () => {
      const { repository } = await opened()
      await repository.create(newUser({ name: '\ufffd' }))
      for (const text of ['a\0b', '\0', 'x'.repeat(100_000)]) {
        expect(await listed(repository, { filters: { name: text } })).toEqual([])
        expect(await listed(repository, { filters: { email: text } })).toEqual([])
      }
    })

    test('ping resolves while the storage answers', async () => {
      const { repository } = await opened()
      await expect(repository.ping()).resolves.toBeUndefined()
    })

    test.each<[string, (repository: UserRepository) => Promise<unknown>]>([
      ['create', repository => repository.create(newUser())],
      ['find', repository => repository.find(1)],
      ['findDigests', repository => repository.findDigests([1])],
      ['isEmailTaken', repository => repository.isEmailTaken('ann@example.com')],
      ['update', repository => repository.update(1, { name: 'Bea' })],
      ['delete', repository => repository.delete(1)],
      ['list', repository => repository.list(FIRST)],
      ['revision', repository => repository.revision()],
      ['findIdempotentCreate', repository => repository.findIdempotentCreate(randomBytes(32))],
      ['ping', repository => repository.ping()],
    ])('%s is rejected after the storage is closed', async (_call, call) => {
      const { repository, close } = await opened()
      await close()
      await expect(call(repository)).rejects.toMatchObject({ code: 'shutting_down' })
    })
  })
}
