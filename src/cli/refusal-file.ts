import {
  appendFileSync,
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  statSync,
} from 'node:fs'
import { OperatorError } from '../errors.ts'
import type { ImportRefusal } from '../users/import-settlement.ts'
import type { RefusalSink } from '../users/user-import.ts'

export interface RefusalFile extends RefusalSink {
  close(): void
}

/**
 * Refusals as NDJSON of `{"line", "errors"}`. A new file is for the user of this process only.
 * Throws `OperatorError` for what is there and is no file, such as a pipe, because an import that goes on goes back in it.
 */
export function openRefusalFile(path: string): RefusalFile {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === false) {
    throw new OperatorError([`--rejects ${path} is no file`])
  }
  const file = openSync(path, 'a', 0o600)
  let written: number | undefined
  return {
    write: (bytes, refusals) => {
      if (bytes === written && refusals.length === 0) return bytes
      const start = Math.min(bytes, fstatSync(file).size)
      const text = Buffer.from(refusals.map(refusal => `${JSON.stringify(refusal)}\n`).join(''))
      ftruncateSync(file, start)
      appendFileSync(file, text)
      fsyncSync(file)
      written = start + text.length
      return written
    },
    close: () => closeSync(file),
  }
}

/** A refusal in one line, such as `line 17: email is invalid`. */
export function describeRefusal({ line, errors }: ImportRefusal): string {
  const parts = Object.entries(errors).flatMap(([field, messages]) =>
    messages.map(message => `${field} ${message}`),
  )
  return `line ${line}: ${parts.join(', ')}`
}
