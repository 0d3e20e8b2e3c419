import { expect, test } from 'vitest'
import { openSigningKeys } from '../../../src/storage/postgres/postgres-signing-keys.ts'
import { connectTo } from '../../support/postgres-connections.ts'
import { copyPostgresTemplate } from '../../support/postgres-databases.ts'

test('openSigningKeys creates a random key of 32 bytes, the same for every process, also at the same time', async () => {
  const url = await copyPostgresTemplate()
  const [first, second] = await Promise.all([1, 2].map(() => openSigningKeys(connectTo(url))))
  expect(first?.get('cursor')).toHaveLength(32)
  expect(second).toEqual(first)
  expect(await openSigningKeys(connectTo(url))).toEqual(first)
})

test('openSigningKeys creates another key for another database', async () => {
  const urls = await Promise.all([copyPostgresTemplate(), copyPostgresTemplate()])
  const [first, second] = await Promise.all(urls.map(url => openSigningKeys(connectTo(url))))
  expect(first).not.toEqual(second)
})
