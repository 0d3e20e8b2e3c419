import type { PostgresLocation } from '../../../config/postgres-url.ts'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'

const OWN_TOOL = 'PostgreSQL has its own tool for this:'

/**
 * Tasks on a PostgreSQL database. `backup`, `restore` and `compact` are refused with the command that does them; `check` names the
 * command that checks pages.
 */
export function createPostgresDatabaseTasks(location: PostgresLocation): DatabaseTasks {
  const places = location.hosts.map(({ host, port }) => `${host}:${port}`).join(',')
  const writableUrl = quote(urlOf(location, { isWritten: true }))
  // Only when they are used: loading the driver takes tens of milliseconds.
  const loadStorage = () => import('../open-postgres-storage.ts')
  const loadCheck = () => import('./check-postgres-database.ts')
  return {
    name: `postgres://${places}/${location.database}`,
    migrate: async options => (await loadStorage()).migrateDatabase(location, options),
    migrationStatus: async () => (await loadStorage()).readMigrationStatus(location),
    backup: ({ file }) => {
      const options = `--format=custom --no-owner --file=${quote(file)}`
      return refuse(`${OWN_TOOL} pg_dump ${options} ${quote(urlOf(location))}`)
    },
    restore: ({ file }) => {
      const options = `--no-owner --exit-on-error --single-transaction --dbname=${writableUrl}`
      return refuse(`${OWN_TOOL} pg_restore ${options} ${quote(file)}, into an empty database`)
    },
    compact: () => {
      const command = `psql ${writableUrl} --command='VACUUM (FULL, ANALYZE)'`
      return refuse(
        `autovacuum makes its free space usable again; ${command} returns it to the file system and locks each table meanwhile`,
      )
    },
    check: async () => {
      const report = await (await loadCheck()).checkPostgresDatabase(location)
      // Only superusers may use the extension amcheck without a GRANT, so the command leaves out the user of the service.
      const url = quote(urlOf({ ...location, user: '' }, { isWritten: true }))
      const command = `pg_amcheck --install-missing --heapallindexed ${url}`
      const advice = `a superuser checks the pages of its tables and indexes with ${command}`
      return { ...report, notes: [...(report.notes ?? []), advice] }
    },
  }
}

async function refuse(why: string): Promise<never> {
  throw new UnusableDatabase(why)
}

/** The URL without a password: the programs ask for it, or take it from PGPASSWORD. */
function urlOf(location: PostgresLocation, { isWritten = false } = {}): string {
  const { hosts, user, database, tls } = location
  const places = hosts.map(({ host, port }) => `${encodeHost(host)}:${port}`).join(',')
  const modes = { none: 'require', ca: 'verify-ca', full: 'verify-full' }
  const parameters = {
    sslmode: tls && modes[tls.verify],
    sslrootcert: tls?.rootCertificate,
    sslcert: tls?.certificate,
    sslkey: tls?.key,
    target_session_attrs: isWritten && hosts.length > 1 ? 'read-write' : undefined,
  }
  const query = Object.entries(parameters)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(value as string)}`)
    .join('&')
  const login = user === '' ? '' : `${encodeURIComponent(user)}@`
  const path = `postgres://${login}${places}/${encodeURIComponent(database)}`
  return query === '' ? path : `${path}?${query}`
}

/** An IPv6 address needs brackets, and the folder of a socket has slashes. */
function encodeHost(host: string): string {
  return host.includes(':') ? `[${host}]` : encodeURIComponent(host)
}

function quote(word: string): string {
  return `'${word.replaceAll("'", `'\\''`)}'`
}
