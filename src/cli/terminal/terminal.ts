import type { Readable, Writable } from 'node:stream'
import { unknownInWords } from '../../config/did-you-mean.ts'
import { type Config, type Environment, loadConfig } from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'

/** Standard output or standard error: a terminal, a pipe or a file. */
export interface OutputStream extends Writable {
  readonly isTTY?: boolean
  /** The width of a terminal. */
  readonly columns?: number
}

/** Where a command runs: its settings and its streams. */
export interface Terminal {
  readonly environment: Environment
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
export function notify({ stderr }: Terminal, text: string): void {
  stderr.write(`${text}\n`)
}

/** Reads the settings for a command, and warns of unknown names on standard error. Throws `OperatorError`. */
export function readConfig(terminal: Terminal): Config {
  return loadConfig(terminal.environment, undefined, name => notify(terminal, unknownInWords(name)))
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
  return new OperatorError([`${file} cannot be written (${reason})`], { cause: error })
}
