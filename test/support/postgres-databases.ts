import { inject, onTestFinished } from 'vitest'
import { newDatabaseName } from './forgotten-databases.ts'
import { queryPostgres } from './postgres-client.ts'
import type {} from './start-postgres.ts'

/** Makes an empty database, which is dropped after the test, and returns its URL. For the project `postgres`. */
export async function newPostgresDatabase(): Promise<string> {
  const { url, createOptions } = inject('postgres')
  const name = newDatabaseName(Date.now())
  await queryPostgres(url, `CREATE DATABASE ${name} ${createOptions}`)
  onTestFinished(async () => {
    await queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`)
  })
  const database = new URL(url)
  database.pathname = `/${name}`
  return database.href
}
