import { describe, expect, onTestFinished, test } from 'vitest'
import type { NewUser, StoredUser, UserRepository } from '../../src/users/user-repository.ts'
import { createFakeClock } from '../support/fake-clock.ts'

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
    test('create gives the user as it is shown, at version 1 and with equal times', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser({ name: 'Zoë "Z" \\ 😀', email: 'Zoe@X.co' }))
      expect(user.version).toBe(1)
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
      expect(JSON.parse(await repository.list(10))).toHaveLength(1)
    })

    test('create lets one of many with one address through', async () => {
      const { repository } = await opened()
      const results = await Promise.allSettled(
        Array.from({ length: 20 }, () => repository.create(newUser({ email: 'one@example.com' }))),
      )
      expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
      expect(JSON.parse(await repository.list(10))).toHaveLength(1)
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
        await repository.list(9),
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
      expect(changed.version).toBe(2)
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
      expect(changed.version).toBe(2)
      expect(await repository.findPasswordDigest(user.id)).toBeNull()
      expect(await repository.update(user.id + 1, { name: 'Bea' })).toBeUndefined()
    })

    test('update at once by many counts each of them', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser())
      await Promise.all(
        Array.from({ length: 20 }, (_, index) =>
          repository.update(user.id, { name: `Name ${index}` }),
        ),
      )
      expect(defined(await repository.find(user.id)).version).toBe(21)
    })

    test('delete says whether there was such a user', async () => {
      const { repository } = await opened()
      const user = await repository.create(newUser())
      expect(await repository.delete(user.id)).toBe(true)
      expect(await repository.delete(user.id)).toBe(false)
      expect(await repository.find(user.id)).toBeUndefined()
    })

    test('list gives users as find does, by id, at most as many as asked for', async () => {
      const { repository } = await opened()
      expect(await repository.list(2)).toBe('[]')
      const users = []
      for (let count = 0; count < 3; count++) users.push(await repository.create(newUser()))
      expect(await repository.list(2)).toBe(`[${users[0]?.json},${users[1]?.json}]`)
      expect(await repository.list(10)).toBe(`[${users.map(({ json }) => json).join(',')}]`)
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
      ['list', repository => repository.list(1)],
      ['ping', repository => repository.ping()],
    ])('%s is refused once the storage is closed', async (_call, call) => {
      const { repository, close } = await opened()
      await close()
      await expect(call(repository)).rejects.toMatchObject({ code: 'shutting_down' })
    })
  })
}
