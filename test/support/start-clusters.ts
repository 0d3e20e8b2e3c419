import { findPostgresBinaries } from './postgres-binaries.ts'
import { skipEngine } from './required-engines.ts'

/** Whether the tests can start PostgreSQL servers of their own. If false, the reason has been printed. */
export const canStartClusters = findPostgresBinaries() !== undefined

if (!canStartClusters) {
  skipEngine('postgres', 'tests that stop a PostgreSQL server', 'no server is installed')
}
