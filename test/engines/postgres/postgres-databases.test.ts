import { expect, inject, onTestFinished, test } from 'vitest'
import { dropForgottenDatabases, newDatabaseName } from '../../support/forgotten-databases.ts'
import { queryPostgres } from '../../support/postgres-client.ts'
import { newPostgresDatabase } from '../../support/postgres-databases.ts'

const DAY_MS = 86_400_000

const { url } = inject('postgres')

let dropped = ''

test('newPostgresDatabase makes an empty database for the test', async () => {
  const databases = [await newPostgresDatabase(), await newPostgresDatabase()]
  dropped = databases[0] ?? ''
  const create = 'CREATE TABLE cats (); SELECT 1'
  await Promise.all(databases.map(database => queryPostgres(database, create)))
})

test('newPostgresDatabase drops it after the test', async () => {
  expect(dropped).not.toBe('')
  await expect(queryPostgres(dropped, 'SELECT 1')).rejects.toThrow('does not exist')
})

test('dropForgottenDatabases drops what a killed test left a day ago, and nothing else', async () => {
  const now = Date.now()
  const names = {
    old: newDatabaseName(now - DAY_MS - 1),
    recent: newDatabaseName(now - DAY_MS + 60_000),
    foreign: `user_records_test_${now - 2 * DAY_MS}_tries`,
  }
  for (const name of Object.values(names)) await queryPostgres(url, `CREATE DATABASE ${name}`)
  onTestFinished(async () => {
    for (const name of Object.values(names)) {
      await queryPostgres(url, `DROP DATABASE IF EXISTS ${name}`)
    }
  })
  await dropForgottenDatabases(url, now)
  const rows = await queryPostgres(url, 'SELECT datname AS name FROM pg_database')
  const left = rows.map(({ name }) => name)
  expect(Object.values(names).filter(name => left.includes(name))).toEqual([
    names.recent,
    names.foreign,
  ])
})
