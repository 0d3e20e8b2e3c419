import { type Environment, loadConfig } from '../../src/config/settings.ts'
import { OperatorError } from '../../src/errors.ts'

/** The path of a `.env` file that is not there. */
export const NO_DOTENV = '/no-such-folder/.env'

/** The lines of the refusal of settings; none where nothing is refused. */
export function problemsOf(environment: Environment, dotenvPath = NO_DOTENV): readonly string[] {
  try {
    loadConfig(environment, dotenvPath)
    return []
  } catch (error) {
    if (error instanceof OperatorError) return error.problems
    throw error
  }
}
