import { type DatabaseOption, describeMistake } from '../config/settings.ts'
import { OperatorError } from '../errors.ts'
import { UnusableDatabase } from '../storage/unusable-database.ts'

/** Turns `UnusableDatabase` into an `OperatorError` whose line names the option. */
export async function blameOption<T>(
  { name, url }: DatabaseOption,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof UnusableDatabase)) throw error
    throw new OperatorError([describeMistake(name, url, error.message)], { cause: error })
  }
}

/** The object with `blameOption` around each of its methods, which all return promises. */
export function blameOptionIn<T extends object>(option: DatabaseOption, methods: T): T {
  const entries = Object.entries(methods).map(([name, method]) => [
    name,
    (...values: unknown[]) => blameOption(option, () => method(...values)),
  ])
  return Object.fromEntries(entries) as T
}
