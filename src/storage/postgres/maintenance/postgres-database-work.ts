import { setTimeout as sleep } from 'node:timers/promises'
import type { PostgresLocation } from '../../../config/postgres-url.ts'
import type { CheckReport, MigrateOptions, MigrationStatus } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { areWordsIndexed, forgetIndexedWords, indexNextUsers } from '../index-next-users.ts'
import { openConnections } from '../open-connections.ts'
import { waitFor } from '../open-postgres-storage.ts'
import type { Connections } from '../postgres-connections.ts'
import { asUnusable, sqlStateOf } from '../postgres-errors.ts'
import {
  migratePostgres,
  postgresMigrationStatus,
  postgresMigrations,
} from '../postgres-migrator.ts'
import { openSigningKeys } from '../postgres-signing-keys.ts'
import { findPostgresFaults } from './find-postgres-faults.ts'

/** Brings the schema and the index of words to this release. */
export function migrateDatabase(
  location: PostgresLocation,
  options: MigrateOptions = {},
): Promise<void> {
  return withConnections(location, async connections => {
    await migratePostgres({ connections, migrations: postgresMigrations(), now: Date.now })
    await openSigningKeys(connections)
    await indexWords(connections, options)
  })
}

/** Takes turns with services that do the same. */
async function indexWords(
  connections: Connections,
  { reindex = false, onIndexing, signal }: MigrateOptions,
): Promise<void> {
  if (reindex) await forgetIndexedWords(connections)
  while (!(await areWordsIndexed(connections))) {
    signal?.throwIfAborted()
    const progress = await indexNextUsers(connections)
    if (progress === undefined) await sleep(OTHERS_PAUSE_MS)
    else onIndexing?.(progress)
  }
}

/** The migrations of this release in order. */
export function readMigrationStatus(
  location: PostgresLocation,
): Promise<readonly MigrationStatus[]> {
  return withConnections(location, connections =>
    postgresMigrationStatus(connections, postgresMigrations()),
  )
}

/** While a service indexes. */
const OTHERS_PAUSE_MS = 20

/** Checks the rows of a database. One that cannot be used because of its content has that as its only fault. */
export async function checkPostgresDatabase(location: PostgresLocation): Promise<CheckReport> {
  try {
    return await withConnections(location, connections =>
      findPostgresFaults(connections, postgresMigrations()),
    )
  } catch (error) {
    return { faults: [faultOf(error)], pending: [] }
  }
}

/** Rethrows an error that is no fault of the database's content. */
function faultOf(error: unknown): string {
  if (error instanceof UnusableDatabase && error.isFault) return error.message
  if (!MISSING.includes(sqlStateOf(error) ?? '')) throw error
  return `it lacks what the migrations make: ${(error as Error).message}`
}

/** A column, a table or a sequence. */
const MISSING = ['42703', '42P01']

/** Some statements of `check` read all users. */
const STATEMENT_MS = 60_000

/** Waits for a server that cannot be reached yet, as a start does. */
async function withConnections<T>(
  location: PostgresLocation,
  work: (connections: Connections) => Promise<T>,
): Promise<T> {
  const connections = openConnections({ location, longStatementMs: STATEMENT_MS })
  try {
    await waitFor(async () => {
      await connections.read(session => session.query({ text: 'SELECT 1' }))
    })
    return await work(connections)
  } catch (error) {
    throw asUnusable(error)
  } finally {
    await connections.close()
  }
}
