import { findPostgresBinaries } from './postgres-binaries.ts'

/** The server on which tests make their databases. If undefined, they start one of their own. */
export const TEST_POSTGRES_URL = process.env.TEST_POSTGRES_URL || undefined

/** Whether tests can start, stop and freeze PostgreSQL servers of their own. */
export const canStartClusters = findPostgresBinaries() !== undefined

/** Whether tests can make databases on a PostgreSQL server. */
export const canUsePostgres = canStartClusters || TEST_POSTGRES_URL !== undefined

/** Which tests are skipped, and why. Undefined if none is. */
export function skippedOnPostgres(): string | undefined {
  const reason = 'are skipped: no PostgreSQL server is installed'
  if (!canUsePostgres) return `tests on PostgreSQL ${reason}, and TEST_POSTGRES_URL is not set`
  return canStartClusters ? undefined : `tests that stop a PostgreSQL server ${reason}`
}

/** Removes the variables of libpq, which would lead tests to a server that nobody named for them. */
export function forgetPostgresVariables(environment: NodeJS.ProcessEnv): void {
  for (const name of Object.keys(environment)) {
    if (name.startsWith('PG')) delete environment[name]
  }
}
