import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { reportFault } from '../../check-rules.ts'
import type { CheckReport, MigrateOptions, MigrationStatus } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { fillWords } from '../../word-filler.ts'
import { forgetIndexedWords, indexedWords } from '../index-next-users.ts'
import { withConnections } from '../open-postgres-storage.ts'
import { isOfState } from '../postgres-errors.ts'
import {
  migratePostgres,
  postgresMigrationStatus,
  postgresMigrations,
} from '../postgres-migrator.ts'
import { findPostgresFaults } from './find-postgres-faults.ts'

/** Brings the schema and the index of words to this release. */
export function migrateDatabase(
  location: PostgresLocation,
  { reindex = false, onIndexing, signal }: MigrateOptions = {},
): Promise<void> {
  return withConnections(location, async connections => {
    await migratePostgres({ connections, migrations: postgresMigrations(), now: Date.now })
    if (reindex) await forgetIndexedWords(connections)
    // Takes turns with services that do the same.
    await fillWords(indexedWords(connections), { onStep: onIndexing, signal })
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

/** SQLSTATEs for a column and for a table or a sequence. */
const MISSING = ['42703', '42P01']

/** Checks the rows of a database. One that cannot be used because of its content has that as its only fault. */
export function checkPostgresDatabase(location: PostgresLocation): Promise<CheckReport> {
  return reportFault(async () => {
    try {
      return await withConnections(location, connections =>
        findPostgresFaults(connections, postgresMigrations()),
      )
    } catch (error) {
      if (!isOfState(error, MISSING)) throw error
      const { message } = error as Error
      const why = `it lacks what the migrations make: ${message}`
      throw new UnusableDatabase(why, { isFault: true, cause: error })
    }
  })
}
