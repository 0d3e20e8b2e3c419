import { Option } from 'commander'
import type { Terminal } from './terminal.ts'

/** What every command gets. */
export interface CommandContext {
  readonly terminal: Terminal
  /** Runs a command, and prints its outcome or takes its exit code: one of `EXIT`, or 128 plus the number of a signal. */
  readonly run: (command: () => Promise<Outcome | number>, flags?: JsonFlags) => Promise<void>
}

/** The result of a command in both forms in which it can be printed. */
export interface Outcome {
  readonly lines: readonly string[]
  readonly json: unknown
  /** `EXIT.done` if left out. */
  readonly exitCode?: number
}

/** Exit codes; `--help` lists them. */
export const EXIT = {
  done: 0,
  failed: 1,
  wrongUsage: 2,
  /** Done, but with findings: rejected rows, a damaged database, limits with an unexpected outcome. */
  foundFaults: 3,
  /** As shells report a program that SIGPIPE ended. Node ignores that signal. */
  brokenPipe: 128 + 13,
} as const

/** The value of `jsonOption`. */
export interface JsonFlags {
  readonly json?: boolean | undefined
}

/** `--json`, for every command that prints a result. */
export function jsonOption(): Option {
  return new Option('--json', 'print the result as JSON')
}

/** A mistake in the command line that commander does not find. */
export class UsageError extends Error {}
