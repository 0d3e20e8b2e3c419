import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { type CheckDialect, findRowFaults, reportFault } from '../../check-rules.ts'
import type { CheckReport } from '../../database-tasks.ts'
import { migrationsFor } from '../../migrations.ts'
import { runAwaited } from '../../programs.ts'
import { UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { isUnfinishedCopy, readUsableHistory } from '../inspect-schema.ts'
import { withConnections } from '../open-postgres-storage.ts'
import type { Connections } from '../postgres-connections.ts'
import { isOfState } from '../postgres-errors.ts'
import { COUNT_LATER_CHANGES } from '../postgres-user-changes.ts'
import { LAST_GIVEN_ID } from '../postgres-user-import-store.ts'
import { POSTGRES_WORDS } from '../postgres-words.ts'
import { checkAccess } from './check-access.ts'

const DIALECT: CheckDialect = {
  lastGivenId: LAST_GIVEN_ID,
  lowerName: 'lower(name COLLATE "C")',
  countLaterChanges: COUNT_LATER_CHANGES,
}

/** SQLSTATEs for a column and for a table or a sequence. */
const MISSING = ['42703', '42P01']

/**
 * Reads all rows of a database, also while others write to it. Each statement sees one state. Rows of an older schema may not
 * yet be as they must be. A database that cannot be used because of its content has that as its only fault.
 */
export function checkPostgresDatabase(location: PostgresLocation): Promise<CheckReport> {
  return reportFault(async () => {
    try {
      return await withConnections(location, findFaults)
    } catch (error) {
      if (!isOfState(error, MISSING)) throw error
      const { message } = error as Error
      const why = `it lacks what the migrations make: ${message}`
      throw new UnusableDatabase(why, { isFault: true, cause: error })
    }
  })
}

async function findFaults(connections: Connections): Promise<CheckReport> {
  const migrations = migrationsFor('postgres')
  const applied = await connections.snapshot(
    session => readUsableHistory(session, migrations),
    'long',
  )
  const pending = migrations.slice(applied.length).map(({ name }) => name)
  if (pending.length > 0) return { faults: [], pending }
  if (await connections.snapshot(isUnfinishedCopy, 'long')) {
    return { faults: [UNFINISHED_COPY], pending }
  }
  const { hidesRows, faults: barriers, notes } = await checkAccess(connections)
  if (hidesRows) return { faults: barriers, pending, notes }
  const faults = await runAwaited(findRowFaults(DIALECT, POSTGRES_WORDS), (sql, values) =>
    connections.query(sql, values, 'long'),
  )
  return { faults: [...barriers, ...faults], pending, notes }
}
