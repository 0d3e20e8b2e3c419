import { setImmediate as nextTurn } from 'node:timers/promises'
import { OperatorError } from '../../errors.ts'

/** Watches standard output and standard error of a command. */
export interface StandardStreams {
  /** Throws `OperatorError` if standard output could not be written, for example on a full disk. */
  throwIfLost(): Promise<void>
}

/** Catches errors of standard output and standard error, which would end the process in the middle of a command. */
export function watchStandardStreams(): StandardStreams {
  let failure: unknown
  process.stdout.on('error', error => {
    // A reader that has closed the pipe wants no more output.
    if (!isBrokenPipe(error)) failure ??= error
  })
  // There is nowhere left to report it, and the work itself is not affected.
  process.stderr.on('error', () => {})
  return {
    throwIfLost: async () => {
      // A stream reports an error only after the call of `write` has returned.
      await nextTurn()
      if (failure !== undefined) throw toWriteError('standard output', failure)
    },
  }
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
