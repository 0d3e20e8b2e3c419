import { unknownInWords } from '../../config/did-you-mean.ts'
import { type Config, loadConfig } from '../../config/settings.ts'
import { keepTemporaryFilesBy } from '../../open-database.ts'
import { notify, type Terminal } from './terminal.ts'

/**
 * Reads the settings for a command, before it opens the database, and warns of unknown names on standard error. Throws
 * `OperatorError`.
 */
export function readConfig(terminal: Terminal): Config {
  const { environment } = terminal
  const config = loadConfig(environment, undefined, name => notify(terminal, unknownInWords(name)))
  keepTemporaryFilesBy(config.database, environment)
  return config
}
