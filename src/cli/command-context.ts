import type { Environment } from '../config.ts'

/** What the commands have in common. */
export interface CommandContext {
  readonly environment: Environment
  /** Runs a command, whose number is the exit code: one of `EXIT`, or 128 and the number of a signal. */
  readonly run: (command: () => Promise<number>) => Promise<void>
}

export const EXIT = {
  done: 0,
  /** It could not be done. */
  failed: 1,
  wrongUsage: 2,
  /** It was done, but what it was done with is not all right: rows that are refused, a database that is damaged. */
  foundFaults: 3,
} as const

/** The command line names something that there is not, or leaves out what there must be. */
export class UsageError extends Error {}
