import { randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  IDEMPOTENCY_TTL_MS,
  type IdempotencyClaim,
  type NewUser,
  SORT_KEYS,
  type StoredUser,
  type UserFilters,
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

function defined<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('nothing was found')
  return value
}

/** What every adapter of `UserRepository` must do, whatever it stores in. */
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
    test('create gives the user as it is shown, with equal times', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ name: 'Zoë "Z" \\ 😀', email: 'Zoe@X.co' }))
      expect(user.version).toMatch(/^[\x21\x23-\x7e]+$/)
      expect(user.json).toBe(
        `{"id":${user.id},"name":"Zoë \\"Z\\" \\\\ 😀","email":"Zoe@X.co",` +
          '"created_at":"2026-01-31T12:00:00.000Z","updated_at":"2026-01-31T12:00:00.000Z"}',
      )
    })

    test('create gives ids that grow, and no id of a deleted user again', async () => {
      const { repository } = await opened()
      const first = await repository.create(newUser())
      const second = await repository.create(newUser())
      expect(second.id).toBeGreaterThan(first.id)
      await repository.delete(second.id)
      const third = await repository.create(newUser())
      expect(third.id).toBeGreaterThan(second.id)
    })

    test('create refuses an address that differs in case only, and stores nothing', async () => {
      const { repository } = await opened()
      await repository.create(newUser({ email: 'ann@example.com' }))
      await expect(repository.create(newUser({ email: 'ANN@Example.COM' }))).rejects.toMatchObject({
        code: 'email_taken',
      })
      expect(await listed(repository)).toHaveLength(1)
    })

    test('create lets one of many with one address through', async () => {
      const { repository } = await opened()
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, () => repository.create(newUser({ email: 'one@example.com' }))),
      )
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      expect(await listed(repository)).toHaveLength(1)
    })

    test('an address is free again once its user is deleted or has another', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ email: 'a@example.com' }))
      await repository.update(user.id, { email: 'b@example.com' })
      const next = await repository.create(newUser({ email: 'a@example.com' }))
      await repository.delete(next.id)
      await expect(repository.create(newUser({ email: 'a@example.com' }))).resolves.toBeDefined()
    })

    test('find gives what was created, and undefined for an id that is none', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser())
      expect(await repository.find(user.id)).toEqual(user)
      expect(await repository.find(user.id + 1)).toBeUndefined()
      expect(await repository.find(Number.MAX_SAFE_INTEGER)).toBeUndefined()
    })

    test('findPasswordDigest tells a digest, no digest and no user apart', async () => {
      const { repository } = await opened()
      const withDigest = await repository.create(newUser({ passwordDigest: '$argon2id$x' }))
      const without = await repository.create(newUser())
      expect(await repository.findPasswordDigest(withDigest.id)).toBe('$argon2id$x')
      expect(await repository.findPasswordDigest(without.id)).toBeNull()
      expect(await repository.findPasswordDigest(without.id + 1)).toBeUndefined()
    })

    test('no call shows a digest', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ passwordDigest: '$argon2id$secret' }))
      const changed = await repository.update(user.id, { passwordDigest: '$argon2id$secret2' })
      const shownAnywhere = [
        user,
        changed,
        await repository.find(user.id),
        await repository.list(FIRST),
      ]
      expect(JSON.stringify(shownAnywhere)).not.toContain('argon2id')
    })

    test('isEmailTaken disregards case and the user it is told to', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ email: 'ann@example.com' }))
      expect(await repository.isEmailTaken('ANN@example.com')).toBe(true)
      expect(await repository.isEmailTaken('ANN@example.com', user.id)).toBe(false)
      expect(await repository.isEmailTaken('ANN@example.com', user.id + 1)).toBe(true)
      expect(await repository.isEmailTaken('bob@example.com')).toBe(false)
    })

    test('update changes the fields given, version and updated_at, and nothing else', async () => {
      const { repository, clock } = await opened()
      const user = await repository.create(newUser({ passwordDigest: '$1' }))
      clock.advance(5)
      const changed = defined(await repository.update(user.id, { name: 'Bea' }))
      expect(changed.version).not.toBe(user.version)
      expect(shown(changed)).toEqual({
        ...shown(user),
        name: 'Bea',
        updated_at: '2026-01-31T12:00:00.005Z',
      })
      expect(await repository.find(user.id)).toEqual(changed)
      expect(await repository.findPasswordDigest(user.id)).toBe('$1')
    })

    test('update with the values that are there changes nothing at all', async () => {
      const { repository, clock } = await opened()
      const user = await repository.create(newUser({ name: 'Ann', passwordDigest: '$1' }))
      clock.advance(5)
      const { name, email } = shown(user) as { name: string; email: string }
      const same = await repository.update(user.id, { name, email, passwordDigest: '$1' })
      expect(same).toEqual(user)
      expect(await repository.update(user.id, {})).toEqual(user)
    })

    test.each([
      { clockMs: 0, updated: '2026-01-31T12:00:00.001Z' },
      { clockMs: -3_600_000, updated: '2026-01-31T12:00:00.001Z' },
      { clockMs: 1, updated: '2026-01-31T12:00:00.001Z' },
      { clockMs: 86_400_000, updated: '2026-02-01T12:00:00.000Z' },
    ])('update moves updated_at on when the clock moved $clockMs ms', async row => {
      const { repository, clock } = await opened()
      const user = await repository.create(newUser())
      clock.advance(row.clockMs)
      const changed = defined(await repository.update(user.id, { name: 'Bea' }))
      expect(shown(changed).updated_at).toBe(row.updated)
    })

    test('update changes the case of one’s own address, and refuses another’s', async () => {
      const { repository } = await opened()
      const ann = await repository.create(newUser({ email: 'ann@example.com' }))
      const bob = await repository.create(newUser({ email: 'bob@example.com' }))
      const changed = defined(await repository.update(ann.id, { email: 'Ann@Example.com' }))
      expect(shown(changed).email).toBe('Ann@Example.com')
      await expect(
        repository.update(bob.id, { name: 'Bea', email: 'ANN@example.com' }),
      ).rejects.toMatchObject({ code: 'email_taken' })
      expect(await repository.find(bob.id)).toEqual(bob)
    })

    test('update removes a digest, and gives undefined for no user', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ passwordDigest: '$1' }))
      const changed = defined(await repository.update(user.id, { passwordDigest: null }))
      expect(changed.version).not.toBe(user.version)
      expect(await repository.findPasswordDigest(user.id)).toBeNull()
      expect(await repository.update(user.id + 1, { name: 'Bea' })).toBeUndefined()
    })

    test('update at once by many gives each a version of its own', async () => {
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

    test('delete says whether there was such a user', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser())
      expect(await repository.delete(user.id)).toBe(true)
      expect(await repository.delete(user.id)).toBe(false)
      expect(await repository.find(user.id)).toBeUndefined()
    })

    test('list gives users as find does, at most as many as asked for', async () => {
      const { repository } = await opened()
      expect(await repository.list(FIRST)).toMatchObject({ json: '[]', next: undefined })
      const users: StoredUser[] = []
      for (let count = 0; count < 3; count++) users.push(await repository.create(newUser()))
      const page = await repository.list({ ...FIRST, limit: 2 })
      expect(page.json).toBe(`[${users[0]?.json},${users[1]?.json}]`)
      expect(page.next?.id).toBe(users[1]?.id)
      const whole = await repository.list({ ...FIRST, limit: 3 })
      expect(whole.json).toBe(`[${users.map(({ json }) => json).join(',')}]`)
      expect(whole.next).toBeUndefined()
    })

    test.each(SORTS)(
      'list sorts by $by, descending: $descending, and goes on behind each',
      async sort => {
        const { repository, clock } = await opened()
        // In lower case the names tie, differ beyond ASCII, and sort otherwise than as they stand.
        for (const name of ['b', 'A', 'a', 'Ä', 'ä', 'B', '😀', 'Z', 'a', '\uffee']) {
          clock.advance(serial % 2)
          const user = await repository.create(
            newUser({ name, email: `${name.length}x${serial}@X.co` }),
          )
          if (serial % 3 === 0) await repository.update(user.id, { email: `A${serial}@x.co` })
        }
        const users = (await listed(repository)) as unknown as ShownUser[]
        const expected = users.toSorted(byCodePoints(sort)).map(({ id }) => id)
        expect((await listed(repository, { sort })).map(({ id }) => id)).toEqual(expected)
        for (const limit of [1, 3]) {
          const walked: number[] = []
          let start: UserQuery['start'] | undefined = FIRST.start
          while (start !== undefined) {
            const page = await repository.list({ ...FIRST, sort, limit, start })
            walked.push(...JSON.parse(page.json).map(({ id }: ShownUser) => id))
            start = page.next
          }
          expect(walked).toEqual(expected)
        }
      },
    )

    test('list finds by each filter and by all of them, and counts on request', async () => {
      const { repository, clock } = await opened()
      const ann = await repository.create(newUser({ name: 'ÄNN', email: 'Ann@x.co' }))
      clock.advance(1000)
      const bob = await repository.create(newUser({ name: 'Bob' }))
      await repository.update(ann.id, { passwordDigest: '$1' })
      const noon = '2026-01-31T12:00:00.000Z'
      const later = '2026-01-31T12:00:01.000Z'
      const cases: [UserFilters, StoredUser[]][] = [
        [{}, [ann, bob]],
        [{ name: 'änn' }, [ann]],
        [{ name: 'ann' }, []],
        [{ email: 'ann@x.co' }, [ann]],
        [{ created_after: noon }, [bob]],
        [{ created_before: later }, [ann]],
        [{ created_after: noon, created_before: later }, []],
        [{ updated_after: noon }, [ann, bob]],
        [{ updated_before: later }, []],
        [{ name: 'änn', email: 'ann@x.co', created_before: later, updated_after: noon }, [ann]],
        [{ name: 'bob', email: 'ann@x.co' }, []],
      ]
      for (const [filters, users] of cases) {
        const page = await repository.list({ ...FIRST, filters, limit: 1, withTotal: true })
        expect(page.total).toBe(users.length)
        expect(page.next === undefined).toBe(users.length < 2)
        const found = await listed(repository, { filters })
        expect(found.map(({ id }) => id)).toEqual(users.map(({ id }) => id))
      }
      expect((await repository.list(FIRST)).total).toBeUndefined()
    })

    test('list finds a range of times in any order, few or many', async () => {
      const { repository, clock } = await opened()
      for (let count = 0; count < 30; count++) {
        clock.advance(1)
        await repository.create(newUser({ name: `Name ${(count * 7) % 30}` }))
      }
      const filters = { created_after: '2026-01-31T12:00:00.005Z' }
      const sort = { by: 'name', descending: false } as const
      const first = await repository.list({ ...FIRST, filters, sort, limit: 20 })
      const rest = await repository.list({
        ...FIRST,
        filters,
        sort,
        start: defined(first.next),
      })
      const names = [first, rest].flatMap(({ json }) => JSON.parse(json) as ShownUser[])
      expect(names).toHaveLength(25)
      expect(names).toEqual(names.toSorted(byCodePoints(sort)))
    })

    test('list skips an offset, also past the end', async () => {
      const { repository } = await opened()
      const users = []
      for (let count = 0; count < 5; count++) users.push(await repository.create(newUser()))
      const page = await repository.list({ ...FIRST, limit: 2, start: { offset: 2 } })
      expect(page.json).toBe(`[${users[2]?.json},${users[3]?.json}]`)
      expect(page.next?.id).toBe(users[3]?.id)
      expect(await listed(repository, { start: { offset: 5 } })).toEqual([])
      expect(await listed(repository, { start: { offset: 999_999_999_998_000 } })).toEqual([])
    })

    test('revision changes with each change, stays where nothing changes, and is that of the list', async () => {
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

    test('update and delete refuse another version than is expected, and do nothing', async () => {
      const { repository } = await opened()
      const first = await repository.create(newUser({ name: 'Ann' }))
      const second = defined(await repository.update(first.id, { name: 'Bea' }, [first.version]))
      const refused = { code: 'version_mismatch' }
      const old = [first.version]
      await expect(repository.update(first.id, { name: 'Cid' }, old)).rejects.toMatchObject(refused)
      await expect(repository.update(first.id, {}, old)).rejects.toMatchObject(refused)
      await expect(repository.update(first.id, {}, [])).rejects.toMatchObject(refused)
      await expect(repository.delete(first.id, old)).rejects.toMatchObject(refused)
      expect(await repository.find(first.id)).toEqual(second)
      expect(await repository.update(first.id + 1, {}, old)).toBeUndefined()
      expect(await repository.delete(first.id + 1, old)).toBe(false)
      expect(await repository.delete(first.id, [first.version, second.version])).toBe(true)
    })

    test('update lets one of many that expect one version through', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser())
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, (_, index) =>
          repository.update(user.id, { name: `Name ${index}` }, [user.version]),
        ),
      )
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    })

    test('create with a claim keeps the user as it was then', async () => {
      const { repository } = await opened()
      const claim = newClaim()
      const user = await repository.create(newUser(), claim)
      await repository.update(user.id, { name: 'Changed' })
      expect(await repository.findIdempotentCreate(claim.keyHash)).toEqual({
        fingerprint: claim.fingerprint,
        user,
      })
      expect(await repository.findIdempotentCreate(newClaim().keyHash)).toBeUndefined()
    })

    test('create refuses a key that is kept, before it looks at the address', async () => {
      const { repository } = await opened()
      const claim = newClaim()
      const user = newUser()
      await repository.create(user, claim)
      await expect(repository.create(user, claim)).rejects.toMatchObject({
        code: 'idempotency_key_in_use',
      })
      expect(await listed(repository)).toHaveLength(1)
    })

    test('create that is refused keeps no key', async () => {
      const { repository } = await opened()
      const claim = newClaim()
      const user = newUser()
      await repository.create(user)
      await expect(repository.create(user, claim)).rejects.toMatchObject({ code: 'email_taken' })
      expect(await repository.findIdempotentCreate(claim.keyHash)).toBeUndefined()
      await expect(repository.create(newUser(), claim)).resolves.toBeDefined()
    })

    test('delete leaves the key used and takes the answer along', async () => {
      const { repository } = await opened()
      const claim = newClaim()
      const user = await repository.create(newUser(), claim)
      await repository.delete(user.id)
      expect(await repository.findIdempotentCreate(claim.keyHash)).toBe('user_deleted')
      await expect(repository.create(newUser(), claim)).rejects.toMatchObject({
        code: 'idempotency_key_in_use',
      })
    })

    test('a key is free again after its time, whether its user was deleted or not', async () => {
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

    test('ping is fulfilled while the storage answers', async () => {
      const { repository } = await opened()
      await expect(repository.ping()).resolves.toBeUndefined()
    })

    test.each<[string, (repository: UserRepository) => Promise<unknown>]>([
      ['create', repository => repository.create(newUser())],
      ['find', repository => repository.find(1)],
      ['findPasswordDigest', repository => repository.findPasswordDigest(1)],
      ['isEmailTaken', repository => repository.isEmailTaken('ann@example.com')],
      ['update', repository => repository.update(1, { name: 'Bea' })],
      ['delete', repository => repository.delete(1)],
      ['list', repository => repository.list(FIRST)],
      ['revision', repository => repository.revision()],
      ['findIdempotentCreate', repository => repository.findIdempotentCreate(randomBytes(32))],
      ['ping', repository => repository.ping()],
    ])('%s is refused once the storage is closed', async (_call, call) => {
      const { repository, close } = await opened()
      await close()
      await expect(call(repository)).rejects.toMatchObject({ code: 'shutting_down' })
    })
  })
}
