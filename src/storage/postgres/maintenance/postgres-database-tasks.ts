import type { PostgresLocation } from '../../../config/postgres-url.ts'
import type { DatabaseTasks } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'

/**
 * Tasks on a PostgreSQL database. `backup`, `restore` and `compact` are refused with the command that does them; `check` names the
 * command that checks pages.
 */
export function createPostgresDatabaseTasks(location: PostgresLocation): DatabaseTasks {
  const places = location.hosts.map(({ host, port }) => `${host}:${port}`).join(',')
  // Only when they are used: loading the driver takes tens of milliseconds.
  const loadStorage = () => import('../open-postgres-storage.ts')
  const loadCheck = () => import('./check-postgres-database.ts')
  return {
    name: `postgres://${places}/${location.database}`,
    migrate: async options => (await loadStorage()).migrateDatabase(location, options),
    migrationStatus: async () => (await loadStorage()).readMigrationStatus(location),
    backup: async ({ file }) => {
      throw new UnusableDatabase(explainBackup(location, file))
    },
    restore: async ({ file }) => {
      throw new UnusableDatabase(explainRestore(location, file))
    },
    check: async () => {
      const report = await (await loadCheck()).checkPostgresDatabase(location)
      return { ...report, advice: explainCheck(location) }
    },
    compact: async () => {
      throw new UnusableDatabase(explainCompact(location))
    },
  }
}

// How to do with PostgreSQL's own programs what this service leaves to them. Each completes a sentence about a database.

function explainBackup(location: PostgresLocation, file: string): string {
  const url = quote(urlOf(location))
  return explain(`pg_dump --format=custom --no-owner --file=${quote(file)} ${url}`)
}

function explainRestore(location: PostgresLocation, file: string): string {
  const url = quote(urlOf(location, { isWritten: true }))
  const options = '--no-owner --exit-on-error --single-transaction'
  return `${explain(`pg_restore ${options} --dbname=${url} ${quote(file)}`)}, into an empty database`
}

function explainCompact(location: PostgresLocation): string {
  const url = quote(urlOf(location, { isWritten: true }))
  const command = `psql ${url} --command='VACUUM (FULL, ANALYZE)'`
  return `autovacuum makes its free space usable again; ${command} returns it to the file system and locks each table meanwhile`
}

/** Only superusers may use the extension amcheck without a GRANT, so the command leaves out the user of the service. */
function explainCheck(location: PostgresLocation): string {
  const url = quote(urlOf({ ...location, user: '' }, { isWritten: true }))
  const command = `pg_amcheck --install-missing --heapallindexed ${url}`
  return `a superuser checks the pages of its tables and indexes with ${command}`
}

function explain(command: string): string {
  return `PostgreSQL has its own tool for this: ${command}`
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
