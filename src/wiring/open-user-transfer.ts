import { existsSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import type { Config } from '../config.ts'
import { IN_MEMORY } from '../storage/inspect.ts'
import { signingKey } from '../storage/signing-keys.ts'
import { createCursors } from '../users/cursor.ts'
import { createPasswordHasher } from '../users/passwords.ts'
import { createSqliteDryRunImportStore } from '../users/sqlite-dry-run-import-store.ts'
import { createSqliteUserImportStore } from '../users/sqlite-user-import-store.ts'
import { createUserRules } from '../users/user.ts'
import { createUserExporter, type UserExporter } from '../users/user-export.ts'
import { createUserImporter, type UserImporter } from '../users/user-import.ts'
import { refusedDatabase } from './database-refusals.ts'
import { openStores } from './open-stores.ts'

/** The ways in and out for many users at once, beside a running service or without one. */
export interface UserTransfer {
  readonly importer: UserImporter
  readonly exporter: UserExporter
  close(): Promise<void>
}

/** 64 MB and not 4: pages that many transactions write are taken from the WAL into the database once. */
const CHECKPOINT_PAGES = 16_000

/** libuv has no more threads, unless it is told otherwise before the process starts. */
const MAX_HASHING_THREADS = 4

/**
 * Throws `OperatorError` when the database cannot be opened. Where nothing is to be changed, there must be one,
 * or for an import that is only tried an empty one stands for it, and its schema must be that of this release.
 */
export async function openUserTransfer(
  config: Config,
  { purpose }: { readonly purpose: 'import' | 'dry run' | 'export' },
): Promise<UserTransfer> {
  const isLasting = config.database.path !== IN_MEMORY
  if (!isLasting && purpose === 'import') throw refusedDatabase(config, 'nothing of it would stay')
  const isThere = isLasting && existsSync(config.database.path)
  if (!isThere && purpose === 'export') throw refusedDatabase(config, 'there is none')
  const isStandIn = !isThere && purpose === 'dry run'
  const location = isStandIn ? { ...config.database, path: IN_MEMORY } : config.database
  const now = Date.now
  const mustExist = purpose !== 'import' && !isStandIn
  const stores = await openStores(
    { ...config, database: location },
    { now, steadyNow: now, mustExist },
  )
  const { database, writes, users } = stores
  const isDryRun = purpose === 'dry run'
  database.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`)
  const maxConcurrent = Math.min(availableParallelism(), MAX_HASHING_THREADS)
  return {
    importer: createUserImporter({
      store: isDryRun
        ? createSqliteDryRunImportStore(database)
        : createSqliteUserImportStore({ database, writes, now }),
      rules: createUserRules(config),
      passwords: isDryRun ? undefined : createPasswordHasher({ maxConcurrent }),
    }),
    exporter: createUserExporter({ users, cursors: createCursors(signingKey(database, 'cursor')) }),
    close: () => stores.close(() => {}),
  }
}
