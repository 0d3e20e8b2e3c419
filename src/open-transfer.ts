import { availableParallelism } from 'node:os'
import { createClocks } from './clocks.ts'
import type { Config } from './config/settings.ts'
import { openStorageForCommand } from './open-database.ts'
import { createCursors } from './users/cursor.ts'
import { createPasswordHasher, createTrialHasher } from './users/passwords/hasher.ts'
import { createImportRules } from './users/transfer/import-rows.ts'
import { createUserExporter } from './users/transfer/user-export.ts'
import { createUserImporter } from './users/transfer/user-import.ts'

/** An export needs an existing database with this release's schema; a dry run without a database uses an empty one. */
const IF_MISSING = { import: 'create', 'dry run': 'use empty', export: 'refuse' } as const

/** The default size of libuv's thread pool. */
const MAX_HASHING_THREADS = 4

/** Opens import and export beside a running service or without one. Throws `OperatorError` if the database cannot be opened. */
export async function openUserTransfer(
  config: Config,
  { purpose }: { readonly purpose: keyof typeof IF_MISSING },
) {
  const isDryRun = purpose === 'dry run'
  const storage = await openStorageForCommand(config, {
    ifMissing: IF_MISSING[purpose],
    mustPersist: !isDryRun,
    isBulk: true,
  })
  const trial = isDryRun ? await openTrial(storage) : undefined
  const maxConcurrent = Math.min(availableParallelism(), MAX_HASHING_THREADS)
  const passwords = createPasswordHasher({ maxConcurrent })
  return {
    importer: createUserImporter({
      store: trial?.store ?? storage.imports,
      rules: createImportRules(config),
      passwords: isDryRun ? createTrialHasher(passwords) : passwords,
      endsAtConflict: !isDryRun,
    }),
    exporter: createUserExporter({
      users: storage.users,
      cursors: createCursors(await storage.signingKey('cursor')),
    }),
    close: async () => {
      trial?.close()
      await storage.close()
    },
  }
}

/** Only when it is used: commands on PostgreSQL run without the binary of better-sqlite3. */
async function openTrial({ imports, close }: Awaited<ReturnType<typeof openStorageForCommand>>) {
  try {
    const { openTrialImports } = await import('./storage/sqlite/trial-imports.ts')
    return await openTrialImports(imports, createClocks().now)
  } catch (error) {
    await close()
    throw error
  }
}
