import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { createPostgresEngine } from '../../../src/storage/postgres/postgres-storage.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'
import { locationOf } from '../../support/postgres-location.ts'
import { executeSql } from '../../support/sql.ts'

test('an error of the server quotes no row', async () => {
  const url = await copyPostgresTemplate()
  const { users, close } = await createPostgresEngine(locationOf(url)).open({
    now: Date.now,
    steadyNow: Date.now,
    maxWaitingWrites: 100,
    ifMissing: 'create',
  })
  onTestFinished(close)
  await executeSql(url, `ALTER TABLE users ADD CONSTRAINT other CHECK (email NOT LIKE 'marker%')`)
  const user = { name: 'Marker', email: 'marker@example.com', passwordDigest: '$marker' }
  const error = await users.create(user).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ code: '23514', constraint: 'other' })
  expect(inspect(error)).not.toMatch(/marker/i)
})
