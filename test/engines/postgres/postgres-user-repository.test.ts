import { expect, test } from 'vitest'
import { createClosing } from '../../../src/storage/postgres/batches.ts'
import { openConnections } from '../../../src/storage/postgres/open-connections.ts'
import { createPostgresUserRepository } from '../../../src/storage/postgres/postgres-user-repository.ts'
import { describeUserRepository } from '../../contracts/user-repository-contract.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { holdOpen, openStorage, untilWaiting } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'

describeUserRepository({
  name: 'PostgreSQL',
  open: async now => {
    const connections = openConnections({ location: locationOf(await copyPostgresTemplate()) })
    const closing = createClosing()
    const repository = createPostgresUserRepository({
      ...{ connections, closing, now, steadyNow: now, maxWaiting: 1000 },
      catchUp: async () => false,
    })
    const close = async () => {
      await closing.close()
      await connections.close()
    }
    return { repository, close }
  },
})

test('update takes back an e-mail that another transaction changes meanwhile', async () => {
  const url = await copyPostgresTemplate()
  const { users } = await openStorage(url)
  const email = 'ann@example.com'
  const { id } = await users.create({ name: 'Ann', email, passwordDigest: null })
  const other = await holdOpen(url, `UPDATE users SET email = 'other@example.com'`)
  const updated = users.update(id, { name: 'Bea', email })
  await untilWaiting(url)
  await other.query('COMMIT')
  expect(await updated).toMatchObject({ json: expect.stringContaining(`"email":"${email}"`) })
  expect(await queryPostgres(url, 'SELECT name, email FROM users')).toEqual([
    { name: 'Bea', email },
  ])
})
