import { expect, test } from 'vitest'
import { DECOY } from '../../src/users/passwords/digests/argon2.ts'
import { createPasswordHasher } from '../../src/users/passwords/hasher.ts'
import { parseDigest } from '../../src/users/passwords/parse-digest.ts'
import { among } from '../support/among.ts'
import { newUserBody } from '../support/builders.ts'
import { openUsers } from '../support/open-users.ts'

const RIGHT = 'correct horse'
const WRONG = 'correct horsf'

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
