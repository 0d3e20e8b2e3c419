import {
  appendFileSync,
  closeSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  statSync,
} from 'node:fs'
import { OperatorError } from '../../errors.ts'
import type { RejectedRow } from '../../users/transfer/import-rows.ts'
import type { RejectsSink } from '../../users/transfer/user-import.ts'
import { toWriteError } from '../terminal/standard-streams.ts'

export interface RejectsFile extends RejectsSink {
  close(): void
}

/**
 * Opens a file for rejected rows, as NDJSON of `{"line", "errors"}`. Only the user of this process can read a new file.
 * Throws `OperatorError` if it cannot be written or is not a regular file: a resumed import rewrites the end of it.
 */
export function openRejectsFile(path: string): RejectsFile {
  if (statSync(path, { throwIfNoEntry: false })?.isFile() === false) {
    throw new OperatorError([`--rejects ${path} is not a regular file`])
  }
  const writing = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw toWriteError(`--rejects ${path}`, error)
    }
  }
  const file = writing(() => openSync(path, 'a', 0o600))
  let written: number | undefined
  return {
    write: (bytes, rows) => {
      if (bytes === written && rows.length === 0) return bytes
      const start = Math.min(bytes, fstatSync(file).size)
      const text = Buffer.from(rows.map(row => `${JSON.stringify(row)}\n`).join(''))
      writing(() => {
        ftruncateSync(file, start)
        appendFileSync(file, text)
        fsyncSync(file)
      })
      written = start + text.length
      return written
    },
    close: () => closeSync(file),
  }
}

/** A rejected row in one line, such as `line 17: email is invalid`. */
export function describeRejectedRow({ line, errors }: RejectedRow): string {
  const parts = Object.entries(errors).flatMap(([field, messages]) =>
    messages.map(message => `${field} ${message}`),
  )
  return `line ${line}: ${parts.join(', ')}`
}
