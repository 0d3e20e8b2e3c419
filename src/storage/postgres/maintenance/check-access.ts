import { migrationsFor } from '../../migrations.ts'
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

/** Tables of the service in which policies decide who sees a row, and whether that goes for this role. */
const SELECT_GUARDED = `
  SELECT relname, row_security_active(oid) FROM pg_class
  WHERE relrowsecurity AND relname = ANY ($1)
    AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('users'))
  ORDER BY relname`

/** Triggers that run for every program, but for one that replicates. */
const SELECT_TRIGGERS = `
  SELECT tgname FROM pg_trigger WHERE tgenabled IN ('O', 'A') AND tgrelid IN (
    SELECT oid FROM pg_class WHERE relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('users')))`

/** Looks for other readers of secrets, row-level security, and triggers that do not run. The schema must be that of this release. */
export async function checkAccess({ query }: Pick<Connections, 'query'>) {
  const readers = await query<[name: string]>(SELECT_READERS, [], 'long')
  const names = readers.map(([name]) => name)
  const named = names.includes('public') ? 'every role (PUBLIC)' : names.join(', ')
  const guarded = await query<[table: string, isActive: boolean]>(
    SELECT_GUARDED,
    [namesIn(/CREATE TABLE (\w+)/g)],
    'long',
  )
  const tablesOf = (isActive: boolean) =>
    guarded.flatMap(([table, active]) => (active === isActive ? [table] : [])).join(', ')
  const [hidden, open] = [tablesOf(true), tablesOf(false)]
  const running = new Set((await query<[string]>(SELECT_TRIGGERS, [], 'long')).flat())
  const missing = namesIn(/CREATE (?:CONSTRAINT )?TRIGGER (\w+)/g).filter(
    name => !running.has(name),
  )
  return {
    /** What this role counts then means nothing. */
    hidesRows: hidden !== '',
    faults: [
      ...(hidden === '' ? [] : [`row-level security hides rows of ${hidden} from this role`]),
      ...missing.map(name => `the trigger ${name} is disabled or missing`),
    ],
    /** What is no fault of the database, but for an operator to know. */
    notes: [
      ...(named === ''
        ? []
        : [
            `beside their owner, password digests, hashes of API keys or signing keys can be read by ${named}`,
          ]),
      ...(open === ''
        ? []
        : [
            `row-level security is on for ${open}: a role that does not own them sees what policies allow`,
          ]),
    ],
  }
}

/** What the migrations make, by name. */
function namesIn(pattern: RegExp): readonly string[] {
  return migrationsFor('postgres').flatMap(({ sql }) =>
    [...sql.matchAll(pattern)].flatMap(([, name]) => name ?? []),
  )
}
