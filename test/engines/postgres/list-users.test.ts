import { expect, test } from 'vitest'
import { createCallGate } from '../../../src/storage/call-gate.ts'
import { createUserLister } from '../../../src/storage/postgres/list-users.ts'
import type { UserQuery } from '../../../src/users/user-repository.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { connectTo, insertUsers } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'

const MANY: UserQuery = {
  sort: { by: 'email', descending: true },
  filters: {},
  words: [],
  limit: 3,
  start: { offset: 0 },
  withTotal: false,
}

test('pages of different numbers are one prepared statement, alone and together, and show what a scan shows', async () => {
  const url = await copyPostgresTemplate()
  await queryPostgres(url, insertUsers(1, 700))
  const rows = await queryPostgres(url, 'SELECT id FROM users ORDER BY email_lower DESC')
  const connections = connectTo(url)
  const search = () => Promise.reject(new Error('no words'))
  const list = createUserLister({ connections, closing: createCallGate(), search })
  const idsOf = async (page: number) => {
    const { json } = await list({ ...MANY, start: { offset: (page - 1) * MANY.limit } })
    return JSON.parse(json).map(({ id }: { id: number }) => id)
  }
  const pages = Array.from({ length: 200 }, (_, index) => index + 2)
  const expected = pages.map(page =>
    rows.slice((page - 1) * MANY.limit, page * MANY.limit).map(({ id }) => id),
  )
  for (const [index, page] of pages.entries()) expect(await idsOf(page)).toEqual(expected[index])
  // Each twice.
  const together = await Promise.all([...pages, ...pages].map(idsOf))
  expect(together).toEqual([...expected, ...expected])
  const names = await connections.read(session =>
    session.query({ text: `SELECT name FROM pg_prepared_statements WHERE name LIKE 'list%'` }),
  )
  expect(names).toHaveLength(2)
})
