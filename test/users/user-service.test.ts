import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openUsers } from '../support/open-users.ts'

test('list makes a list again only after a change, also while others are asked that are too large to be kept', async () => {
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
  expect(made).toBe(51)
  await round()
  expect(made).toBe(52)
  await users.create(newUserBody())
  await round()
  expect(made).toBe(52 + 51)
})
