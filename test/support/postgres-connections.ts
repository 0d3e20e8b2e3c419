import { randomBytes } from 'node:crypto'
import type { Client } from 'pg'
import { onTestFinished } from 'vitest'
import type { DatabaseTasks } from '../../src/storage/database-tasks.ts'
import { createPostgresDatabaseTasks } from '../../src/storage/postgres/maintenance/postgres-database-tasks.ts'
import { openConnections } from '../../src/storage/postgres/open-connections.ts'
import { createPostgresEngine } from '../../src/storage/postgres/postgres-storage.ts'
import type { OpenStorageOptions } from '../../src/storage/storage.ts'
import { connectToPostgres, locationOf, queryPostgres } from './postgres-databases.ts'
import { openEngine } from './stored.ts'
import { until } from './until.ts'

/** Connections that are closed after the test. */
export function connectTo(
  url: string,
  options: Omit<Parameters<typeof openConnections>[0], 'location'> = {},
) {
  const connections = openConnections({ location: locationOf(url), ...options })
  onTestFinished(() => connections.close())
  return connections
}

/** Opens a database as a service does. It is closed after the test. */
export function openStorage(url: string, options?: Partial<OpenStorageOptions>) {
  return openEngine(createPostgresEngine(locationOf(url)), options)
}

/** What commands do with a database. */
export function tasksOn(url: string): DatabaseTasks {
  return createPostgresDatabaseTasks(locationOf(url))
}

/** Begins a transaction with this SQL, and leaves it open. It ends with the test, if not before. */
export async function holdOpen(url: string, sql: string): Promise<Client> {
  const holder = await connectToPostgres(url)
  onTestFinished(() => holder.end())
  await holder.query(`BEGIN; ${sql}`)
  return holder
}

const WAITING = `
  SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

/** Waits until this many sessions of the database wait for a lock. */
export async function untilWaiting(url: string, sessions = 1): Promise<void> {
  await until(async () => (await queryPostgres(url, WAITING)).length >= sessions)
}

/** SQL that inserts a user. */
export function insertUser(email: string, name = 'Ann'): string {
  return `INSERT INTO users (name, name_lower, email, words, created_at, updated_at)
    VALUES ('${name}', '${name.toLowerCase()}', '${email}', ${wordsIn(`'${name} ${email}'`)}, '${NOON}', '${NOON}')`
}

/** SQL for the words of a text in ASCII. */
function wordsIn(text: string): string {
  return `array_to_tsvector(regexp_split_to_array(lower(${text}), '[^a-z0-9]+'))`
}

/** SQL that inserts users with the e-mails `u1@x.co` and so on. */
export function insertUsers(from: number, to: number): string {
  return `INSERT INTO users (name, name_lower, email, words, created_at, updated_at)
    SELECT 'Filled ' || n, 'filled ' || n, 'u' || n || '@x.co', ${wordsIn("'filled ' || n || ' u' || n || ' x co'")}, '${NOON}', '${NOON}'
    FROM generate_series(${from}, ${to}) AS n;`
}

export const NOON = '2026-01-31T12:00:00.000Z'

/**
 * The URL of a database without tables yet, for a new role with the rights that serving needs: on tables and sequences that
 * are made later by the role of this URL. The new role may not change the schema.
 */
export async function asServingRole(url: string): Promise<string> {
  const role = `user_records_test_${randomBytes(6).toString('hex')}`
  await queryPostgres(
    url,
    `REVOKE CREATE ON SCHEMA public FROM public;
    CREATE ROLE ${role} LOGIN;
    ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO ${role};
    ALTER DEFAULT PRIVILEGES GRANT USAGE ON SEQUENCES TO ${role}`,
  )
  onTestFinished(async () => {
    await queryPostgres(url, `DROP OWNED BY ${role}; DROP ROLE ${role}`)
  })
  const restricted = new URL(url)
  restricted.username = role
  return restricted.href
}
