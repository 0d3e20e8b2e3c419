import { unknownInWords } from '../../config/did-you-mean.ts'
import { type Config, loadConfig } from '../../config/settings.ts'
import { notify } from './print.ts'
import type { Terminal } from './terminal.ts'

/** Reads the settings for a command, and warns of unknown names on standard error. Throws `OperatorError`. */
export function readConfig(terminal: Terminal): Config {
  return loadConfig(terminal.environment, undefined, name => notify(terminal, unknownInWords(name)))
}
