import { type Config, type Environment, loadConfig } from '../../config.ts'
import { unknownInWords } from '../../did-you-mean.ts'

/** Reads the settings for a command, and warns of unknown names on standard error. Throws `OperatorError`. */
export function readConfig(environment: Environment): Config {
  return loadConfig(environment, undefined, name => console.error(unknownInWords(name)))
}
