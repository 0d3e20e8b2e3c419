import { toWriteError } from './standard-streams.ts'
import type { Terminal } from './terminal.ts'

/** Writes lines to standard output. Resolves once they are written, because exiting earlier would cut them off. */
export function print({ stdout }: Terminal, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    stdout.write(`${text}\n`, error => {
      if (error == null) resolve()
      else reject(toWriteError('standard output', error))
    })
  })
}

/** Prints a value as indented JSON. */
export function printJson(terminal: Terminal, value: unknown): Promise<void> {
  return print(terminal, JSON.stringify(value, undefined, 2))
}

/** Writes lines to standard error. */
export function notify({ stderr }: Terminal, text: string): void {
  stderr.write(`${text}\n`)
}
