import { migrationsFor } from '../../migrations.ts'
import { readGuardedTables } from '../inspect-schema.ts'
import type { Connections } from '../postgres-connections.ts'

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

/** Looks for other readers of secrets, row-level security, and triggers that do not run. The schema must be that of this release. */
export async function checkAccess(connections: Pick<Connections, 'query'>) {
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
  const sql = migrationsFor('postgres')
    .map(migration => migration.sql)
    .join('\n')
  return Array.from(sql.matchAll(/CREATE (?:CONSTRAINT )?TRIGGER (\w+)/g), ([, name = '']) => name)
}
