import { toWriteError } from './standard-streams.ts'

/** Writes lines to standard output. Resolves once they are written, because exiting earlier would cut them off. */
export function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${text}\n`, error => {
      if (error == null) resolve()
      else reject(toWriteError('standard output', error))
    })
  })
}

/** Prints a value as indented JSON. */
export function printJson(value: unknown): Promise<void> {
  return print(JSON.stringify(value, undefined, 2))
}
