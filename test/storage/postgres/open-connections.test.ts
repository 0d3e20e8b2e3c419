import { expect, test } from 'vitest'
import { ServiceError } from '../../../src/errors.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { asServingRole, connectTo } from '../../support/postgres-connections.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'

test.each(['write', 'transaction'] as const)(
  '%s passes an error of the work, whose outcome is known',
  async mode => {
    const connections = connectTo(await newPostgresDatabase())
    const result = connections[mode](async session => {
      await session.query({ text: 'SELECT 1' })
      throw new ServiceError('email_taken')
    })
    await expect(result).rejects.toMatchObject({ code: 'email_taken' })
  },
)

test('long work goes on if the server is alive, but has no room for another connection', async () => {
  const direct = await newPostgresDatabase()
  const url = await asServingRole(direct)
  const role = new URL(url).username
  const connections = connectTo(url)
  await queryPostgres(direct, `ALTER ROLE ${role} CONNECTION LIMIT 1`)
  const rows = connections.read(
    session => session.query<[string]>({ text: `SELECT 'done' FROM pg_sleep(2)` }),
    { isLong: true },
  )
  expect(await rows).toEqual([['done']])
})
