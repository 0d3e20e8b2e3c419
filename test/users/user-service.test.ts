import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { createCursors } from '../../src/users/cursor.ts'
import { DECOY } from '../../src/users/passwords/digests/argon2.ts'
import { createPasswordHasher, type PasswordHasher } from '../../src/users/passwords/hasher.ts'
import { parseDigest } from '../../src/users/passwords/parse-digest.ts'
import type { UserRepository } from '../../src/users/user-repository.ts'
import { createUserRules } from '../../src/users/user-schemas.ts'
import { createUserService } from '../../src/users/user-service.ts'
import { newUserBody } from '../support/builders.ts'
import { among } from '../support/create-user.ts'
import { openSqliteStored } from '../support/stored.ts'

const RIGHT = 'correct horse'
const WRONG = 'correct horsf'

/**
 * Users in memory, and the calls of the password hasher: their cost is what a client could measure. `wrap` may replace calls
 * of the repository.
 */
async function openUsers(
  wrap: (repository: UserRepository) => Partial<UserRepository> = () => ({}),
) {
  const asked: string[] = []
  const { users: repository } = await openSqliteStored(':memory:')
  const users = { ...repository, ...wrap(repository) }
  const hasher = createPasswordHasher()
  const passwords = new Proxy(hasher, {
    get: (_target, name: keyof PasswordHasher) => {
      if (name === 'hashAll') {
        return (all: readonly string[]) => {
          asked.push(...all.map(() => 'hash'))
          return hasher.hashAll(all)
        }
      }
      if (name !== 'waiting' && name !== 'isCommon') asked.push(name)
      return hasher[name]
    },
  })
  const rules = createUserRules({ passwordMinChars: 8 })
  const cursors = createCursors(randomBytes(32))
  return {
    users: createUserService({
      onWrite: () => {},
      ...{ users, passwords, cursors, rules },
      onUpgradeFailure: error => {
        throw error
      },
    }),
    asked,
  }
}

test('UserService.update writes a password that others change each time that it is compared', async () => {
  let changes = 0
  const { users, asked } = await openUsers(repository => ({
    findWithDigest: async id => {
      const found = await repository.findWithDigest(id)
      changes++
      await repository.update(id, { passwordDigest: `$${changes}` })
      return found
    },
  }))
  const { user } = await users.create(newUserBody({ password: 'correct horse' }))
  asked.length = 0
  const changed = await users.update(user.id, { user: { password: 'battery staple' } })
  expect(changed.version).not.toBe(user.version)
  expect([changes, asked]).toEqual([3, ['verify', 'hash', 'verify', 'hash', 'hash']])
})

test('UserService.update hashes once more for a wrong password, and not at all if it is rejected', async () => {
  const { users, asked } = await openUsers()
  await users.create(newUserBody({ email: 'taken@x.co' }))
  const { user } = await users.create(newUserBody({ email: 'ann@x.co', password: RIGHT }))
  asked.length = 0
  for (const password of [RIGHT, WRONG]) {
    const outcomes = await Promise.allSettled([
      users.update(user.id, { user: { password, email: 'Taken@x.co' } }),
      users.update(user.id, { user: { password, name: '' } }),
      users.update(
        user.id,
        { user: { password } },
        { precondition: among('2000-01-01T00:00:00.000Z') },
      ),
      users.update(undefined, { user: { password } }),
    ])
    expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 'rejected'))
  }
  expect(asked).toEqual([])
  expect((await users.read(user.id)).json).toBe(user.json)
  await users.update(user.id, { user: { password: RIGHT } })
  expect(asked.splice(0)).toEqual(['verify'])
  await users.update(user.id, { user: { password: WRONG } })
  expect(asked).toEqual(['verify', 'hash'])
})

test('UserService.create with an idempotency key hashes the password once and ignored attributes once, and a repeat verifies both', async () => {
  const { users, asked } = await openUsers()
  const repeats = [
    { body: newUserBody({ password: RIGHT }), first: ['hash'], again: ['verify'] },
    { body: newUserBody(), first: [], again: [] },
    { body: newUserBody({ password_confirmation: RIGHT }), first: ['hash'], again: ['verify'] },
    {
      body: newUserBody({ password: RIGHT, password_confirmation: RIGHT }),
      first: ['hash', 'hash'],
      again: ['verify', 'verify'],
    },
  ]
  for (const [index, { body, first, again }] of repeats.entries()) {
    const key = `key-${index}`
    const created = await users.create(body, { key })
    expect(asked.splice(0)).toEqual(first)
    expect(await users.create(body, { key })).toEqual({ user: created.user, isReplay: true })
    expect(asked.splice(0)).toEqual(again)
    const other = users.create({ user: { ...body.user, name: 'Other' } }, { key })
    await expect(other).rejects.toMatchObject({ code: 'idempotency_key_reused' })
    expect(asked.splice(0)).toEqual([])
  }
})

test('a failed UserService.verify does the same work for each cause', async () => {
  const { users, asked } = await openUsers()
  await users.create(newUserBody({ email: 'ann@x.co', password: RIGHT }))
  await users.create(newUserBody({ email: 'none@x.co' }))
  asked.length = 0
  for (const [email, password] of [
    ['ann@x.co', WRONG],
    ['none@x.co', RIGHT],
    ['nobody@x.co', RIGHT],
    ['nobody', RIGHT],
  ]) {
    await expect(users.verify({ user: { email, password } })).rejects.toMatchObject({
      code: 'wrong_credentials',
    })
    expect(asked.splice(0)).toEqual(['verifyEvenly'])
  }
})

test('verifyEvenly computes a digest that costs as much as a new one if there is none', async () => {
  const hasher = createPasswordHasher()
  // Each of these would be false at once if it were no digest.
  expect(await hasher.verifyEvenly(undefined, RIGHT)).toBe(false)
  const { kind } = parseDigest(await hasher.hash(RIGHT)) ?? {}
  expect(parseDigest(DECOY)).toMatchObject({ isAffordable: true, isCurrent: true, kind })
})
