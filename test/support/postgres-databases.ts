import { inject, onTestFinished } from 'vitest'
import { newDatabaseName, urlOfDatabase } from './forgotten-databases.ts'
import type { AtEnd } from './open-test-app.ts'
import { queryPostgres } from './postgres-client.ts'
import type {} from './start-postgres.ts'

/** A database that outlives the test. Whoever made it drops it. */
export interface LastingDatabase {
  readonly url: string
  drop(): Promise<void>
}

/** Makes an empty database. `createOptions` replaces the end of CREATE DATABASE. */
export async function createPostgresDatabase(createOptions?: string): Promise<LastingDatabase> {
  const { url, createOptions: usual } = inject('postgres')
  const name = newDatabaseName(Date.now())
  await queryPostgres(url, `CREATE DATABASE ${name} ${createOptions ?? usual}`)
  return {
    url: urlOfDatabase(url, name),
    drop: async () => {
      await queryPostgres(url, `DROP DATABASE ${name} WITH (FORCE)`)
    },
  }
}

/**
 * Makes an empty database, which is dropped after the test or when what `atEnd` is given is called, and returns its URL. For the
 * project `postgres`.
 */
export async function newPostgresDatabase(
  createOptions?: string,
  atEnd: AtEnd = onTestFinished,
): Promise<string> {
  const { url, drop } = await createPostgresDatabase(createOptions)
  atEnd(drop)
  return url
}

/** The same with the schema of this release. Two of them give their list the same first revision. */
export function copyPostgresTemplate(atEnd?: AtEnd): Promise<string> {
  return newPostgresDatabase(inject('postgres').templateOptions, atEnd)
}
