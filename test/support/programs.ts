import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** The server on which tests make their databases. If undefined, they start one of their own. */
export const TEST_POSTGRES_URL = process.env.TEST_POSTGRES_URL || undefined

/** Whether tests can start, stop and freeze PostgreSQL servers of their own. */
export const canStartClusters = findPostgresBinaries() !== undefined

/** Whether tests can make databases on a PostgreSQL server. */
export const canUsePostgres = canStartClusters || TEST_POSTGRES_URL !== undefined

/** The server on which tests count, with a prefix of their own. If undefined, they start one of their own. */
export const TEST_REDIS_URL = process.env.TEST_REDIS_URL || undefined

/** Whether tests can start, stop and freeze Redis servers of their own. */
export const canStartRedis = areInstalled('redis-server', 'redis-cli')

/** Whether tests can count on a Redis server. */
export const canUseRedis = canStartRedis || TEST_REDIS_URL !== undefined

/** Whether tests can check rules with promtool and start a Prometheus server of their own. */
export const canUsePrometheus = areInstalled('prometheus', 'promtool')

/** Whether tests can start a proxy. */
export const canUseNginx = spawnSync('nginx', ['-v']).status === 0

/** Whether tests can start a PgBouncer. */
export const canUsePgBouncer = areInstalled('pgbouncer')

/** Whether tests can run the commands that ask the log. */
export const canUseJq = areInstalled('jq')

/** Whether tests can make disks and clocks that fail, by a library in C that is preloaded. */
export const canFailDisks = process.platform === 'linux' && areInstalled('cc')

/** The shell without a window takes half of the time. */
const BROWSERS = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'] as const

/** The browser that opens the pages. */
export const CHROMIUM = process.env.CHROMIUM_PATH || (BROWSERS.find(existsSync) ?? BROWSERS[0])

/** Whether tests can open pages. */
export const canOpenPages = existsSync(CHROMIUM)

/** Which tests are skipped for the lack of a program, and why. */
export const SKIPPED = {
  postgres: canUsePostgres
    ? unless(canStartClusters, 'tests that stop a PostgreSQL server', 'none is installed')
    : 'tests on PostgreSQL are skipped: it is not installed, and TEST_POSTGRES_URL is not set',
  redis: canUseRedis
    ? unless(canStartRedis, 'tests that stop a Redis server', 'none is installed')
    : 'tests on Redis are skipped: it is not installed, and TEST_REDIS_URL is not set',
  prometheus: unless(canUsePrometheus, 'tests on Prometheus', 'it and promtool are not installed'),
  pgbouncer: unless(canUsePgBouncer, 'tests through PgBouncer', 'it is not installed'),
  disks: unless(canFailDisks, 'tests on failing disks', 'they need Linux and a C compiler (cc)'),
  jq: unless(canUseJq, 'tests of docs/operations/audit.md', 'jq is not installed'),
  nginx: unless(canUseNginx, 'tests behind a proxy', 'nginx is not installed'),
  chromium: unless(
    canOpenPages,
    'tests in a browser',
    `there is no Chromium at ${CHROMIUM} (CHROMIUM_PATH)`,
  ),
}

function unless(canRun: boolean, tests: string, why: string): string | undefined {
  return canRun ? undefined : `${tests} are skipped: ${why}`
}

function areInstalled(...programs: readonly string[]): boolean {
  return programs.every(program => spawnSync(program, ['--version']).status === 0)
}

/** The folder of an installed PostgreSQL server: on the PATH, else the newest where packages install it. */
export function findPostgresBinaries(): string | undefined {
  const needed = ['initdb', 'postgres', 'pg_ctl', 'pg_basebackup']
  const onPath = (process.env.PATH ?? '').split(delimiter).filter(folder => folder !== '')
  // Each with a folder for each version, and what is between a version and its programs.
  const versioned = [
    ...versionsIn('/usr/lib/postgresql', ''),
    ...versionsIn('/usr', 'pgsql-'),
    ...versionsIn('/opt/homebrew/opt', 'postgresql@'),
    ...versionsIn('/usr/local/opt', 'postgresql@'),
  ]
  return [...onPath, ...versioned].find(folder =>
    needed.every(program => existsSync(join(folder, program))),
  )
}

/** The newest first. */
function versionsIn(folder: string, prefix: string): string[] {
  if (!existsSync(folder)) return []
  const names = readdirSync(folder).filter(name => name.startsWith(prefix))
  return names
    .map(name => ({ name, version: Number(name.slice(prefix.length)) }))
    .filter(({ version }) => version >= 13)
    .toSorted((one, other) => other.version - one.version)
    .map(({ name }) => join(folder, name, 'bin'))
}

/** Removes the variables of libpq, which would lead tests to a server that nobody named for them. */
export function forgetPostgresVariables(environment: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(environment)) {
    if (name.startsWith('PG')) delete environment[name]
  }
}
