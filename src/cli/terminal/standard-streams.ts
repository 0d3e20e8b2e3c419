import { setImmediate as nextTurn } from 'node:timers/promises'
import { OperatorError } from '../../errors.ts'
import type { Terminal } from './terminal.ts'

/** Watches standard output and standard error of a command. */
export interface WatchedStreams {
  /** Throws `OperatorError` if standard output could not be written, for example on a full disk. */
  throwIfLost(): Promise<void>
  end(): void
}

/** Catches errors of standard output and standard error, which would end the process in the middle of a command. */
export function watchStandardStreams({ stdout, stderr }: Terminal): WatchedStreams {
  let failure: unknown
  const onOutputError = (error: unknown) => {
    // A reader that has closed the pipe wants no more output.
    if (!isBrokenPipe(error)) failure ??= error
  }
  // There is nowhere left to report it, and the work itself is not affected.
  const ignore = () => {}
  stdout.on('error', onOutputError)
  stderr.on('error', ignore)
  return {
    throwIfLost: async () => {
      // A stream reports an error only after the call of `write` has returned.
      await nextTurn()
      if (failure !== undefined) throw toWriteError('standard output', failure)
    },
    end: () => {
      stdout.off('error', onOutputError)
      stderr.off('error', ignore)
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
