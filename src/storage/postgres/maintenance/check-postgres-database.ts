import type { PostgresLocation } from '../../../config/postgres-url.ts'
import { type CheckDialect, findRowFaults, reportFault } from '../../check-rules.ts'
import type { CheckReport } from '../../database-tasks.ts'
import { migrationsFor } from '../../migrations.ts'
import { runAwaited } from '../../programs.ts'
import { UNFINISHED_COPY, UnusableDatabase } from '../../unusable-database.ts'
import { isUnfinishedCopy, readGuardedTables, readUsableHistory } from '../inspect-schema.ts'
import { withConnections } from '../open-postgres-storage.ts'
import type { Connections } from '../postgres-connections.ts'
import { isOfState } from '../postgres-errors.ts'
import { COUNT_LATER_CHANGES } from '../postgres-user-changes.ts'
import { LAST_GIVEN_ID } from '../postgres-user-import-store.ts'
import { POSTGRES_WORDS } from '../user-reads.ts'

const DIALECT: CheckDialect = {
  lastGivenId: LAST_GIVEN_ID,
  lowerName: 'lower(name COLLATE "C")',
  countLaterChanges: COUNT_LATER_CHANGES,
}

/** SQLSTATEs for a column and for a table or a sequence. */
const MISSING = ['42703', '42P01']

/** Columns that only the service should read. */
const SECRETS = `('users', 'password_digest'), ('api_keys', 'key_hash'), ('signing_keys', 'key')`

/**
 * Roles that may read them, but for the owner of the tables, whoever may become it, and superusers. Platforms grant new tables to
 * roles of their own by default privileges. By their numbers: a name would be an error once a role is dropped meanwhile.
 */
const SELECT_READERS = `
  WITH secrets AS (
    SELECT pg_class.oid, relnamespace, relowner, attribute FROM (VALUES ${SECRETS}) AS secret (relation, attribute)
      JOIN pg_class ON pg_class.oid = to_regclass(secret.relation))
  SELECT 'public' FROM secrets
  WHERE has_column_privilege('public', oid, attribute, 'SELECT') AND has_schema_privilege('public', relnamespace, 'USAGE')
  UNION
  SELECT rolname FROM secrets CROSS JOIN pg_roles AS role
  WHERE NOT rolsuper AND rolname NOT LIKE 'pg\\_%' AND NOT pg_has_role(role.oid, relowner, 'MEMBER')
    AND has_column_privilege(role.oid, secrets.oid, attribute, 'SELECT')
    AND has_schema_privilege(role.oid, relnamespace, 'USAGE')
  ORDER BY 1`

/** Triggers that run for every program, but for one that replicates. */
const SELECT_TRIGGERS = `
  SELECT tgname FROM pg_trigger WHERE tgenabled IN ('O', 'A') AND tgrelid IN (
    SELECT oid FROM pg_class WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('users')))`

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
  const applied = await connections.snapshot(session => readUsableHistory(session, migrations))
  const pending = migrations.slice(applied.length).map(({ name }) => name)
  if (pending.length > 0) return { faults: [], pending }
  if (await connections.snapshot(isUnfinishedCopy)) {
    return { faults: [UNFINISHED_COPY], pending }
  }
  const { hidesRows, faults: barriers, notes } = await checkAccess(connections)
  if (hidesRows) return { faults: barriers, pending, notes }
  const faults = await runAwaited(findRowFaults(DIALECT, POSTGRES_WORDS), (sql, values) =>
    connections.query(sql, values, 'long'),
  )
  return { faults: [...barriers, ...faults], pending, notes }
}

/** Looks for other readers of secrets, row-level security, and triggers that do not run. The schema must be that of this release. */
async function checkAccess(connections: Connections) {
  const namesOf = async (statement: string) =>
    (await connections.query<[name: string]>(statement, [], 'long')).flat()
  const readers = await namesOf(SELECT_READERS)
  const named = readers.includes('public') ? 'every role (PUBLIC)' : readers.join(', ')
  const { hiding, open } = await readGuardedTables(connections)
  const running = new Set(await namesOf(SELECT_TRIGGERS))
  const missing = triggersMade().filter(name => !running.has(name))
  const barriers = missing.map(name => `the trigger ${name} is disabled or missing`)
  if (hiding !== '') barriers.unshift(`row-level security hides rows of ${hiding} from this role`)
  return {
    /** What this role counts then means nothing. */
    hidesRows: hiding !== '',
    faults: barriers,
    /** What is no fault of the database, but for an operator to know. */
    notes: [
      named &&
        `beside their owner, password digests, hashes of API keys or signing keys can be read by ${named}`,
      open &&
        `row-level security is on for ${open}: a role that does not own them sees what policies allow`,
    ].filter(note => note !== ''),
  }
}

/** Those of the migrations, by name. */
function triggersMade(): readonly string[] {
  return migrationsFor('postgres').flatMap(({ sql }) =>
    Array.from(sql.matchAll(/CREATE (?:CONSTRAINT )?TRIGGER (\w+)/g), ([, name = '']) => name),
  )
}
