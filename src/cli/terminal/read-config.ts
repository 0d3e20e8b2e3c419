import { unknownInWords } from '../../config/did-you-mean.ts'
import { type Config, loadConfig } from '../../config/settings.ts'
import type { Storage } from '../../storage/storage.ts'
import { engineOf } from '../../wiring/engines.ts'
import { type CommandStorageOptions, openStorageForCommand } from '../../wiring/open-storage.ts'
import { notify, type Terminal, UsageError } from './terminal.ts'

/**
 * Reads the settings for a command, before it opens the database, and warns of unknown names on standard error. Throws
 * `OperatorError`.
 */
export function readConfig(terminal: Terminal): Config {
  const { environment } = terminal
  const config = loadConfig(environment, undefined, name => notify(terminal, unknownInWords(name)))
  engineOf(config.database).keepTemporaryFiles(environment)
  return config
}

/**
 * Throws `UsageError` for a file of the database. Even reading one would do harm: closing a file drops all locks that the process
 * holds on it.
 */
export function requireOtherFile(file: string, { database }: Config): void {
  if (!engineOf(database).ownsFile(file)) return
  throw new UsageError(`${file} is the database, or a file that belongs to it`)
}

/** Runs `work` with the database of the settings, whether or not a service is running. Throws `OperatorError`. */
export async function withStorage<T>(
  terminal: Terminal,
  ifMissing: CommandStorageOptions['ifMissing'],
  work: (storage: Storage) => Promise<T>,
): Promise<T> {
  const options = { ifMissing, mustPersist: true }
  const storage = await openStorageForCommand(readConfig(terminal), options)
  return work(storage).finally(storage.close)
}
