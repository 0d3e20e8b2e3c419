import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { openSqlite } from '../../src/storage/sqlite/open-sqlite.ts'
import { createReadView } from '../../src/storage/sqlite/read-view.ts'
import { createSqliteUserRepository } from '../../src/storage/sqlite/sqlite-user-repository.ts'
import { createWriteQueue } from '../../src/storage/sqlite/write-queue.ts'
import { createCursors } from '../../src/users/cursor.ts'
import { createFingerprints } from '../../src/users/fingerprint.ts'
import { createPasswordVerifications } from '../../src/users/password-verifications.ts'
import { isPasswordDigest, kindOfDigest } from '../../src/users/passwords/digest.ts'
import {
  createPasswordHasher,
  DECOY,
  isCurrentDigest,
  type LoginHasher,
} from '../../src/users/passwords/hasher.ts'
import { createUserRules } from '../../src/users/user-schemas.ts'
import { createUserService } from '../../src/users/user-service.ts'
import { newUserBody } from '../support/builders.ts'

/** Users in memory, and the calls of the password hasher: their cost is what a client could measure. */
async function openUsers() {
  const database = await openSqlite({ path: ':memory:', now: Date.now })
  const view = createReadView(database)
  const writes = createWriteQueue(database, view)
  onTestFinished(async () => {
    await writes.close()
    view.end()
    database.close()
  })
  const hasher = createPasswordHasher()
  const asked: string[] = []
  const passwords = new Proxy(hasher, {
    get: (_target, name: keyof LoginHasher) => {
      if (name !== 'waiting') asked.push(name)
      return hasher[name]
    },
  })
  const repository = createSqliteUserRepository({ database, writes, view, now: Date.now })
  const rules = createUserRules({ passwordMinChars: 8 })
  const users = createUserService({
    users: repository,
    passwords,
    fingerprints: createFingerprints(passwords),
    cursors: createCursors(randomBytes(32)),
    rules,
  })
  const verifications = createPasswordVerifications({
    users: repository,
    passwords,
    rules,
    onUpgradeFailure: error => {
      throw error
    },
  })
  return { users, verifications, asked }
}

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
      users.update(user.id, { user: { password } }, ['2000-01-01T00:00:00.000Z']),
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

test('a failed PasswordVerifications.verify does the same work for each cause', async () => {
  const { users, verifications, asked } = await openUsers()
  await users.create(newUserBody({ email: 'ann@x.co', password: RIGHT }))
  await users.create(newUserBody({ email: 'none@x.co' }))
  asked.length = 0
  for (const [email, password] of [
    ['ann@x.co', WRONG],
    ['none@x.co', RIGHT],
    ['nobody@x.co', RIGHT],
    ['nobody', RIGHT],
  ]) {
    await expect(verifications.verify({ user: { email, password } })).rejects.toMatchObject({
      code: 'wrong_credentials',
    })
    expect(asked.splice(0)).toEqual(['verifyEvenly'])
  }
})

test('verifyEvenly computes a digest that costs as much as a new one if there is none', async () => {
  const hasher = createPasswordHasher()
  // Each of these would be false at once if it were no digest.
  expect(await hasher.verifyEvenly(undefined, RIGHT)).toBe(false)
  expect(isPasswordDigest(DECOY)).toBe(true)
  expect(isCurrentDigest(DECOY)).toBe(true)
  expect(kindOfDigest(DECOY)).toBe(kindOfDigest(await hasher.hash(RIGHT)))
})
