import { availableParallelism } from 'node:os'
import type { Config } from '../config/settings.ts'
import { createCursors } from '../users/cursor.ts'
import { createPasswordHasher, createTrialHasher } from '../users/passwords/hasher.ts'
import { createImportRules } from '../users/transfer/import-rows.ts'
import { createUserExporter, type UserExporter } from '../users/transfer/user-export.ts'
import { createUserImporter, type UserImporter } from '../users/transfer/user-import.ts'
import { type CommandStorageOptions, openStorageForCommand } from './open-storage.ts'

/** Import and export of many users, beside a running service or without one. */
export interface UserTransfer {
  readonly importer: UserImporter
  readonly exporter: UserExporter
  close(): Promise<void>
}

type Purpose = 'import' | 'dry run' | 'export'

/** An export needs an existing database with this release's schema; a dry run without a database uses an empty one. */
const IF_MISSING: Readonly<Record<Purpose, CommandStorageOptions['ifMissing']>> = {
  import: 'create',
  'dry run': 'use empty',
  export: 'refuse',
}

/** The default size of libuv's thread pool. */
const MAX_HASHING_THREADS = 4

/** Opens import and export for one purpose. Throws `OperatorError` when the database cannot be opened. */
export async function openUserTransfer(
  config: Config,
  { purpose }: { readonly purpose: Purpose },
): Promise<UserTransfer> {
  const isDryRun = purpose === 'dry run'
  const storage = await openStorageForCommand(config, {
    ifMissing: IF_MISSING[purpose],
    mustPersist: !isDryRun,
    isBulk: true,
  })
  const passwords = createPasswordHasher({
    maxConcurrent: Math.min(availableParallelism(), MAX_HASHING_THREADS),
  })
  return {
    importer: createUserImporter({
      store: isDryRun ? await storage.openTrialImports() : storage.imports,
      rules: createImportRules(config),
      passwords: isDryRun ? createTrialHasher(passwords) : passwords,
      endsAtConflict: !isDryRun,
    }),
    exporter: createUserExporter({
      users: storage.users,
      cursors: createCursors(await storage.signingKey('cursor')),
    }),
    close: storage.close,
  }
}
