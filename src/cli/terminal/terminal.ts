import type { Readable, Writable } from 'node:stream'
import { Option } from 'commander'
import { maskCredentials } from '../../config/url-parts.ts'
import { OperatorError } from '../../errors.ts'

/** Standard output or standard error: a terminal, a pipe or a file. */
export interface OutputStream extends Writable {
  /** The width of a terminal. */
  readonly columns?: number
}

/** Where a command runs: its settings and its streams. */
export interface Terminal {
  readonly environment: Record<string, string | undefined>
  readonly stdout: OutputStream
  readonly stderr: OutputStream
  /** Opens standard input, for the command that reads it. */
  readonly stdin: () => Readable
}

/**
 * Writes to standard output. Resolves once the text is written, because exiting earlier would cut it off. Throws
 * `OperatorError` if it cannot be written, for example on a full disk, and the error of a pipe that its reader has closed.
 */
export function write({ stdout }: Terminal, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stdout.write(text, error => {
      if (error == null) resolve()
      else reject(toWriteError('standard output', error))
    })
  })
}

/** Writes lines to standard output, as `write` does. */
export function print(terminal: Terminal, text: string): Promise<void> {
  return write(terminal, `${text}\n`)
}

/** Prints a value as indented JSON. */
export function printJson(terminal: Terminal, value: unknown): Promise<void> {
  return print(terminal, JSON.stringify(value, undefined, 2))
}

/** Writes lines to standard error. */
export function notify({ stderr }: Pick<Terminal, 'stderr'>, text: string): void {
  stderr.write(`${text}\n`)
}

/** Whether an error means that the reader has closed the pipe, as `head` does. */
export function isBrokenPipe(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'EPIPE'
}

/**
 * Returns an `OperatorError` such as `users.csv cannot be written (ENOSPC: no space left on device)`. A broken pipe and
 * errors that the system did not report are returned as they are.
 */
export function toWriteError(file: string, error: unknown): unknown {
  const isSystemError = error instanceof Error && 'syscall' in error
  if (!isSystemError || isBrokenPipe(error)) return error
  const [reason] = error.message.split(',')
  return new OperatorError([`${maskCredentials(file)} cannot be written (${reason})`], {
    cause: error,
  })
}

/** Rounds a number and marks its thousands: `12,345`. */
export function grouped(count: number): string {
  return Math.round(count).toLocaleString('en')
}

/** A number of things, such as `1 user` or `12,345 users`. */
export function counted(count: number, unit: string): string {
  return `${grouped(count)} ${count === 1 ? unit.replace(/s$/, '') : unit}`
}

/** For example `45 s`, `3 min 5 s` or `2 h 10 min`. */
export function inWords(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}

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

/** The error for an option or argument with a wrong value. */
export function wrongValue(option: string, value: string, mayBe: string): UsageError {
  return new UsageError(`${option} was ${textInWords(value)}; it may be ${mayBe}`)
}

/** A text as it is, or in quotes if it has blanks, line breaks or other unusual characters. */
export function textInWords(text: string): string {
  return /^[\w.:/@%+*-]+$/.test(text) ? text : JSON.stringify(text)
}
