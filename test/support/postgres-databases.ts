import { randomBytes } from 'node:crypto'
import { Client, types } from 'pg'
import { inject, onTestFinished } from 'vitest'
import { locatePostgres, type PostgresLocation } from '../../src/config/postgres-url.ts'
import type { AtEnd } from './open-test-app.ts'
import type {} from './start-postgres.ts'

/** A database that outlives the test. Whoever made it drops it. */
export interface LastingDatabase {
  readonly name: string
  readonly url: string
  drop(): Promise<void>
}

/** Makes a database on the server of a URL. `options` is the end of CREATE DATABASE. */
export async function createDatabaseOn(server: string, options: string): Promise<LastingDatabase> {
  const name = `user_records_test_${randomBytes(6).toString('hex')}`
  await queryPostgres(server, `CREATE DATABASE ${name} ${options}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  const drop = async () => {
    await queryPostgres(server, `DROP DATABASE ${name} WITH (FORCE)`)
  }
  return { name, url: url.href, drop }
}

/** Makes an empty database. `createOptions` replaces the end of CREATE DATABASE. */
export function createPostgresDatabase(createOptions?: string): Promise<LastingDatabase> {
  const { url, createOptions: usual } = inject('postgres')
  return createDatabaseOn(url, createOptions ?? usual)
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

/** Runs one SQL statement on a connection of its own. */
export function queryPostgres(url: string, text: string): Promise<Record<string, unknown>[]> {
  return withPostgres(url, async client => (await client.query(text)).rows)
}

/** Connects for the time of `work`. */
export async function withPostgres<T>(
  url: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = await connectToPostgres(url)
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** A connection that the caller ends. */
export async function connectToPostgres(url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  // A lost connection shows in the next query.
  client.on('error', () => {})
  // As SQLite has it.
  client.setTypeParser(types.builtins.INT8, Number)
  await client.connect()
  return client
}

/** The location that a URL names by itself. */
export function locationOf(url: string): PostgresLocation {
  const location = locatePostgres(url, {}, () => undefined)
  if (location === undefined) throw new Error('the URL is wrong')
  return location
}
