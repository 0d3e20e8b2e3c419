import { availableParallelism } from 'node:os'
import type { Config } from '../config/settings.ts'
import { createClocks } from '../platform/clocks.ts'
import { openAll } from '../platform/open-all.ts'
import { createTrialHasher } from '../users/passwords/hasher.ts'
import { createImportRules } from '../users/transfer/import-rows.ts'
import { type ImportOptions, runImport } from '../users/transfer/user-import.ts'
import { openTrialImports } from './engines.ts'
import { openPasswords } from './open-passwords.ts'
import { openStorageForCommand } from './open-storage.ts'

/** The default size of libuv's thread pool. */
const MAX_HASHING_THREADS = 4

export interface OpenImportOptions {
  readonly isDryRun?: boolean
  readonly takesBareDigests?: boolean
}

/**
 * Opens an import beside a running service or without one. Throws `OperatorError` if the database or the list of
 * passwords cannot be opened. A dry run without a database uses an empty one.
 */
export function openUserImport(config: Config, options: OpenImportOptions = {}) {
  const { isDryRun = false, takesBareDigests } = options
  return openAll(async closers => {
    const maxConcurrent = Math.min(availableParallelism(), MAX_HASHING_THREADS)
    const { passwords, close } = await openPasswords(config, { maxConcurrent })
    closers.push(close)
    const storage = await openStorageForCommand(config, {
      ifMissing: isDryRun ? 'use empty' : 'create',
      mustPersist: !isDryRun,
      isReadOnly: isDryRun,
      isBulk: true,
    })
    closers.push(storage.close)
    const trial = isDryRun && (await openTrialImports(storage.imports, createClocks().now))
    if (trial) closers.push(trial.close)
    const own = {
      store: trial ? trial.store : storage.imports,
      rules: createImportRules({ ...config, takesBareDigests }),
      passwords: isDryRun ? createTrialHasher(passwords) : passwords,
      endsAtConflict: !isDryRun,
    }
    return {
      run: (of: Omit<ImportOptions, keyof typeof own>) => runImport({ ...of, ...own }),
    }
  })
}
