import { inject, onTestFinished } from 'vitest'
import { newDatabaseName, urlOfDatabase } from './forgotten-databases.ts'
import { queryPostgres } from './postgres-client.ts'
import type {} from './start-postgres.ts'

/**
 * Makes an empty database, which is dropped after the test, and returns its URL. For the project `postgres`. `createOptions`
 * replaces the end of CREATE DATABASE.
 */
export async function newPostgresDatabase(createOptions?: string): Promise<string> {
  const { url, createOptions: usual } = inject('postgres')
  const name = newDatabaseName(Date.now())
  await queryPostgres(url, `CREATE DATABASE ${name} ${createOptions ?? usual}`)
  onTestFinished(async () => {
    await queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`)
  })
  return urlOfDatabase(url, name)
}

/** The same with the schema of this release. Two of them give their list the same first revision. */
export function copyPostgresTemplate(): Promise<string> {
  return newPostgresDatabase(`TEMPLATE ${inject('postgres').template}`)
}
