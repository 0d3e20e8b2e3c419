import type { PostgresLocation } from '../../../postgres-location.ts'
import type { CheckReport, MigrationStatus, TaskOptions } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { openConnections } from '../open-connections.ts'
import { waitFor } from '../open-postgres-storage.ts'
import type { Connections } from '../postgres-connections.ts'
import {
  migratePostgres,
  postgresMigrationStatus,
  postgresMigrations,
} from '../postgres-migrator.ts'
import { openSigningKeys } from '../postgres-signing-keys.ts'
import { asUnusable } from '../unreachable-reasons.ts'
import { findPostgresFaults } from './find-postgres-faults.ts'

/** Brings the schema to this release. */
export function migrateDatabase(location: PostgresLocation): Promise<void> {
  return withConnections(location, async connections => {
    await migratePostgres({ connections, migrations: postgresMigrations(), now: Date.now })
    await openSigningKeys(connections)
  })
}

/** The migrations of this release in order. */
export function readMigrationStatus(
  location: PostgresLocation,
): Promise<readonly MigrationStatus[]> {
  return withConnections(location, connections =>
    postgresMigrationStatus(connections, postgresMigrations()),
  )
}

/** Checks a whole database. One that cannot be used because of its content has that as its only fault. */
export async function checkPostgresDatabase(
  location: PostgresLocation,
  options: TaskOptions,
): Promise<CheckReport> {
  try {
    return await withConnections(location, connections =>
      findPostgresFaults({ ...options, connections, migrations: postgresMigrations() }),
    )
  } catch (error) {
    if (!(error instanceof UnusableDatabase && error.isFault)) throw error
    return { faults: [error.message], pending: [] }
  }
}

/** Waits for a server that cannot be reached yet, as a start does. */
async function withConnections<T>(
  location: PostgresLocation,
  work: (connections: Connections) => Promise<T>,
): Promise<T> {
  const connections = openConnections({ location })
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
