import type { Logger } from 'pino'
// Takes Node's clocks and timers before the program replaces them by those of a test.
import './platform/clocks.ts'
import type { UserRecordsSettings } from './library/library-settings.ts'
import type { UserRecords } from './library/open-library.ts'

export { OperatorError } from './errors.ts'
export type * from './limits/kinds/define-limits.ts'
export { defineLimits } from './limits/kinds/define-limits.ts'
export type { UserRecords, UserRecordsSettings }

/** What `createUserRecords` takes beside the settings. */
export interface UserRecordsOptions {
  /** Gets the log lines that the service would print. Without it nothing is logged. */
  readonly logger?: Logger
}

/**
 * Opens the service without a server. It reads neither the environment nor `.env`, catches no signal and never ends the
 * process. Any number can be open in one process.
 * Rejects with `OperatorError`, one line for each problem, if a setting is wrong or the database cannot be opened.
 */
export async function createUserRecords(
  settings: UserRecordsSettings = {},
  options: UserRecordsOptions = {},
): Promise<UserRecords> {
  // Imported late: a limits file that imports `defineLimits` from here needs neither the database nor the server.
  const { openLibrary } = await import('./library/open-library.ts')
  return openLibrary(settings, options?.logger)
}
