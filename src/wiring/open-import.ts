import { availableParallelism } from 'node:os'
import type { Config } from '../config/settings.ts'
import { createClocks } from '../platform/clocks.ts'
import { createTrialHasher } from '../users/passwords/hasher.ts'
import { createImportRules } from '../users/transfer/import-rows.ts'
import { type ImportOptions, runImport } from '../users/transfer/user-import.ts'
import { openTrialImports } from './engines.ts'
import { openPasswords } from './open-passwords.ts'
import { openStorageForCommand } from './open-storage.ts'

/** The default size of libuv's thread pool. */
const MAX_HASHING_THREADS = 4

/**
 * Opens an import beside a running service or without one. Throws `OperatorError` if the database or the list of
 * passwords cannot be opened. A dry run without a database uses an empty one.
 */
export async function openUserImport(
  config: Config,
  {
    isDryRun = false,
    takesBareDigests,
  }: { readonly isDryRun?: boolean; readonly takesBareDigests?: boolean } = {},
) {
  const maxConcurrent = Math.min(availableParallelism(), MAX_HASHING_THREADS)
  const { passwords, close: closePasswords } = await openPasswords(config, { maxConcurrent })
  const { store, close } = await openStore(config, isDryRun).catch(async error => {
    await closePasswords()
    throw error
  })
  const own = {
    store,
    rules: createImportRules({ ...config, takesBareDigests }),
    passwords: isDryRun ? createTrialHasher(passwords) : passwords,
    endsAtConflict: !isDryRun,
  }
  return {
    run: (options: Omit<ImportOptions, keyof typeof own>) => runImport({ ...options, ...own }),
    close: async () => {
      await close()
      await closePasswords()
    },
  }
}

async function openStore(config: Config, isDryRun: boolean) {
  const storage = await openStorageForCommand(config, {
    ifMissing: isDryRun ? 'use empty' : 'create',
    mustPersist: !isDryRun,
    isBulk: true,
  })
  const trial = isDryRun ? await openTrial(storage) : undefined
  return {
    store: trial?.store ?? storage.imports,
    close: async () => {
      trial?.close()
      await storage.close()
    },
  }
}

/** Only when it is used: commands on PostgreSQL run without the binary of better-sqlite3. */
async function openTrial({ imports, close }: Awaited<ReturnType<typeof openStorageForCommand>>) {
  try {
    return await openTrialImports(imports, createClocks().now)
  } catch (error) {
    await close()
    throw error
  }
}
