import { type Config, type DatabaseLocation, mistakeIn, problemWith } from '../config.ts'
import { OperatorError } from '../errors.ts'
import { DatabaseRefused } from '../storage/database-refused.ts'

/** Turns the refusal of the database into a line that names its setting. */
export async function namingTheSetting<T>(
  { url }: DatabaseLocation,
  open: () => Promise<T>,
): Promise<T> {
  try {
    return await open()
  } catch (error) {
    if (!(error instanceof DatabaseRefused)) throw error
    throw new OperatorError([problemWith('DATABASE_URL', url, error.message)])
  }
}

/** Turns the refusal of the database, or of another file, into a line that names it. */
export async function namingTheFile<T>(
  { url }: DatabaseLocation,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof DatabaseRefused)) throw error
    const line =
      error.file === undefined
        ? mistakeIn('DATABASE_URL', url, error.message)
        : `${JSON.stringify(error.file)}: ${error.message}`
    throw new OperatorError([line], { cause: error })
  }
}

/** Why the database of the settings will not do. */
export function refusedDatabase({ database }: Config, why: string): OperatorError {
  return new OperatorError([problemWith('DATABASE_URL', database.url, why)])
}
