import { inject, onTestFinished } from 'vitest'
import { newDatabaseName } from './forgotten-databases.ts'
import { queryPostgres } from './postgres-client.ts'
import type {} from './start-postgres.ts'

/**
 * Makes an empty database, which is dropped after the test, and returns its URL. For the project `postgres`.
 * `createOptions` replaces the end of CREATE DATABASE.
 */
export async function newPostgresDatabase(createOptions?: string): Promise<string> {
  const { url, createOptions: usual } = inject('postgres')
  const name = newDatabaseName(Date.now())
  await queryPostgres(url, `CREATE DATABASE ${name} ${createOptions ?? usual}`)
  onTestFinished(async () => {
    await queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`)
  })
  const database = new URL(url)
  database.pathname = `/${name}`
  return database.href
}
