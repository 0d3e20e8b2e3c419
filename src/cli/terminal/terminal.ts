import type { Readable, Writable } from 'node:stream'
import type { Environment } from '../../config/settings.ts'

/** Standard output or standard error: a terminal, a pipe or a file. */
export interface OutputStream extends Writable {
  readonly isTTY?: boolean
  /** The width of a terminal. */
  readonly columns?: number
}

/** The standard streams of a command. */
export interface StandardStreams {
  readonly stdin: Readable
  readonly stdout: OutputStream
  readonly stderr: OutputStream
}

/** Where a command runs: its settings and its streams. */
export interface Terminal extends StandardStreams {
  readonly environment: Environment
}

/** Opens standard input only when a command reads it. */
export function createTerminal(environment: Environment, streams: StandardStreams): Terminal {
  const { stdout, stderr } = streams
  return {
    environment,
    get stdin() {
      return streams.stdin
    },
    stdout,
    stderr,
  }
}
