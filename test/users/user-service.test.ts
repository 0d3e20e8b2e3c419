import { expect, test } from 'vitest'
import { ServiceError } from '../../src/errors.ts'
import { newUserBody } from '../support/builders.ts'
import { openUsers } from '../support/open-users.ts'

test('list keeps a list from the second time on until a change, also while others are asked that are too large to be kept', async () => {
  let made = 0
  const { users } = await openUsers(repository => ({
    list: query => {
      made++
      return repository.list(query)
    },
  }))
  const list = (parameters: Record<string, string>) =>
    users.list(
      Object.entries(parameters).map(([name, value]) => ({ name, value })),
      () => false,
    )
  const name = '\u{1f600}'.repeat(255)
  for (let count = 0; count < 110; count++) await users.create(newUserBody({ name }))
  const round = async () => {
    for (let page = 1; page <= 50; page++) await list({ per_page: '1', page: String(page) })
    await list({ per_page: '1000' })
  }
  await round()
  await round()
  expect(made).toBe(2 * 51)
  await round()
  expect(made).toBe(2 * 51 + 1)
  await users.create(newUserBody())
  await round()
  expect(made).toBe(3 * 51 + 1)
})

test('createMany hashes nothing if its writes may not all wait', async () => {
  const asked: number[] = []
  const { users, asked: hashed } = await openUsers(() => ({
    requireRoom: writes => {
      asked.push(writes)
      throw new ServiceError('overloaded')
    },
  }))
  const user = () => newUserBody({ password: 'correct horse' }).user
  const made = users.createMany({ users: [user(), {}, user()] })
  await expect(made).rejects.toMatchObject({ code: 'overloaded' })
  expect([asked, hashed]).toEqual([[2], []])
})

test('update gives up while others change the password each time that it is compared', async () => {
  let changes = 0
  const { users, asked } = await openUsers(repository => ({
    findDigests: async ids => {
      const found = await repository.findDigests(ids)
      changes++
      await repository.update(ids[0] as number, { passwordDigest: `$${changes}` })
      return found
    },
  }))
  const { user } = await users.create(newUserBody({ password: 'correct horse' }))
  asked.length = 0
  const change = users.update(user.id, { user: { password: 'battery staple' } })
  await expect(change).rejects.toMatchObject({ code: 'overloaded' })
  expect([changes, asked.length]).toEqual([5, 10])
})
