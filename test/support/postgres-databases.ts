import { randomBytes } from 'node:crypto'
import { Client, types } from 'pg'
import { inject, onTestFinished } from 'vitest'
import { locatePostgres, type PostgresLocation } from '../../src/config/postgres-url.ts'
import type { AtEnd } from './open-test-app.ts'
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
  const client = new Client({ connectionString: url, types: { getTypeParser } })
  // A lost connection shows in the next query.
  client.on('error', () => {})
  await client.connect()
  return client
}

/** `bigint` as a number, as SQLite has it. */
const getTypeParser: typeof types.getTypeParser = (oid, format) =>
  oid === types.builtins.INT8 ? Number : types.getTypeParser(oid, format)

const DAY_MS = 86_400_000

const NAME = /^user_records_test_(\d+)_[0-9a-f]{12}$/

const SELECT_NAMES = `SELECT datname AS name FROM pg_database WHERE datname LIKE 'user_records_test_%'`

/** The name of a new database of a test. It contains the time. */
export function newDatabaseName(now: number): string {
  return `user_records_test_${now}_${randomBytes(6).toString('hex')}`
}

/** The URL of another database on the same server. */
export function urlOfDatabase(server: string, name: string): string {
  const url = new URL(server)
  url.pathname = `/${name}`
  return url.href
}

/** Drops the databases that tests made more than a day ago. Those tests were killed. */
export async function dropForgottenDatabases(url: string, now: number): Promise<void> {
  for (const { name } of await queryPostgres(url, SELECT_NAMES)) {
    const madeAt = NAME.exec(String(name))?.[1]
    if (madeAt === undefined || now - Number(madeAt) <= DAY_MS) continue
    await queryPostgres(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`)
  }
}

/** The location that a URL names by itself. */
export function locationOf(url: string): PostgresLocation {
  const location = locatePostgres(url, {}, () => undefined)
  if (location === undefined) throw new Error('the URL is wrong')
  return location
}
