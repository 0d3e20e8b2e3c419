import { createRequire } from 'node:module'
import type BetterSqlite3 from 'better-sqlite3'
import { loadNativePackage } from '../../platform/native-package.ts'

/**
 * The release of better-sqlite3 for the running Node. Release 13 uses Node-API 10, which Node 20 lacks.
 * Release 12 aborts on Node 24 when the garbage collector frees a statement. Both have one interface.
 */
const PACKAGE = process.versions.node.startsWith('20.')
  ? 'better-sqlite3-node-20'
  : 'better-sqlite3'

export const Database: typeof BetterSqlite3 = loadNativePackage(
  PACKAGE,
  (Driver: typeof BetterSqlite3) => {
    // Loads the native part, which better-sqlite3 does only for the first database.
    new Driver(':memory:').close()
  },
)

/** The file that a thread loads for another connection. */
export const DRIVER_PATH = createRequire(import.meta.url).resolve(PACKAGE)

export type Database = BetterSqlite3.Database

export type { Statement } from 'better-sqlite3'
