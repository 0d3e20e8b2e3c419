import { expect, test } from 'vitest'
import { ServiceError } from '../../../src/errors.ts'
import { connectTo } from '../../support/postgres-connections.ts'
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
