import { accessSync, appendFileSync, constants, statSync, truncateSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Config } from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'
import type { RejectsSink } from '../../users/transfer/user-import.ts'
import { engineOf } from '../../wiring/engines.ts'
import { toWriteError, UsageError } from '../terminal/terminal.ts'
import { STANDARD_STREAM } from './format.ts'

/**
 * Throws `UsageError` for a file of the database. Even reading one would do harm: closing a file drops all locks that
 * the process holds on it.
 */
export function requireOtherFile(file: string, config: Config): void {
  if (file === STANDARD_STREAM || !engineOf(config.database).ownsFile(file)) return
  throw new UsageError(`${file} is the database, or a file that belongs to it`)
}

/**
 * Keeps rejected rows in a file, as NDJSON of `{"line", "errors"}`. The first write makes a new file, which only the user of this
 * process can read. Throws `OperatorError` if it cannot be written or is not a regular file: a resumed import rewrites its end.
 */
export function createRejectsSink(path: string): RejectsSink {
  const stats = statSync(path, { throwIfNoEntry: false })
  if (stats?.isFile() === false)
    throw new OperatorError([`--rejects ${path} is not a regular file`])
  const writing = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw toWriteError(`--rejects ${path}`, error)
    }
  }
  writing(() => accessSync(stats === undefined ? dirname(path) : path, constants.W_OK))
  let written: number | undefined
  return {
    write: (bytes, rows) => {
      if (bytes === written && rows.length === 0) return bytes
      const text = rows.map(row => `${JSON.stringify(row)}\n`).join('')
      return writing(() => {
        const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
        const start = Math.min(bytes, size)
        if (start < size) truncateSync(path, start)
        appendFileSync(path, text, { mode: 0o600, flush: true })
        written = start + Buffer.byteLength(text)
        return written
      })
    },
  }
}
