import { describeMistake, describeProblem } from '../config/settings.ts'
import type { DatabaseLocation } from '../config/settings.ts'
import { OperatorError } from '../errors.ts'
import { UnusableDatabase } from '../storage/unusable-database.ts'

/** Turns `UnusableDatabase` into an `OperatorError` whose line names DATABASE_URL and what it may be. */
export async function blameSetting<T>(
  { url }: DatabaseLocation,
  open: () => Promise<T>,
): Promise<T> {
  try {
    return await open()
  } catch (error) {
    if (!(error instanceof UnusableDatabase)) throw error
    throw new OperatorError([describeProblem('DATABASE_URL', url, error.message)])
  }
}

/** Turns `UnusableDatabase` into an `OperatorError` whose line names DATABASE_URL or the file that the error is about. */
export async function blameFile<T>({ url }: DatabaseLocation, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof UnusableDatabase)) throw error
    const line =
      error.file === undefined
        ? describeMistake('DATABASE_URL', url, error.message)
        : `${JSON.stringify(error.file)}: ${error.message}`
    throw new OperatorError([line], { cause: error })
  }
}
