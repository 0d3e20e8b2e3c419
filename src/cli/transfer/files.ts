import {
  accessSync,
  appendFileSync,
  constants,
  createWriteStream,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Config } from '../../config/settings.ts'
import { OperatorError } from '../../errors.ts'
import { partialNameOf, removeLeftovers, syncFile, syncFolder } from '../../files/durable-files.ts'
import { isFileOfDatabase } from '../../open-database.ts'
import type { RejectsSink } from '../../users/transfer/user-import.ts'
import { type Terminal, toWriteError, UsageError, write } from '../terminal/terminal.ts'
import { STANDARD_STREAM } from './format.ts'

export interface FileOptions {
  readonly terminal: Terminal
  readonly signal: AbortSignal
  /** Whether the name of the file ends in `.gz`. Ignored for a standard stream. */
  readonly isPacked: boolean
}

/**
 * Throws `UsageError` for a file of the database. Even reading one would do harm: closing a file drops all locks that
 * the process holds on it.
 */
export function requireOtherFile(file: string, config: Config): void {
  if (file === STANDARD_STREAM || !isFileOfDatabase(file, config)) return
  throw new UsageError(`${file} is the database, or a file that belongs to it`)
}

/**
 * Writes to standard output, or to a new file that replaces an existing one once it is complete and synced to disk. Only the
 * user of this process can read the file. Throws `OperatorError` with its name if it cannot be written, or if it exists
 * and is not a regular file. An abort makes it throw the reason of the signal, or an `AbortError`.
 */
export async function writeOutput(
  file: string,
  texts: AsyncIterable<string>,
  { terminal, signal, isPacked }: FileOptions,
): Promise<void> {
  if (file === STANDARD_STREAM) {
    signal.throwIfAborted()
    const aborted = new Promise<never>((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
    })
    aborted.catch(() => {})
    // One after the other: text that is still buffered when the process exits is lost.
    for await (const text of texts) await Promise.race([write(terminal, text), aborted])
    return
  }
  // The rename would replace a device such as /dev/null with a file.
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) {
    throw new OperatorError([`${file} is not a regular file; - stands for standard output`])
  }
  const partial = partialNameOf(file)
  try {
    removeLeftovers(file)
    const output = createWriteStream(partial, { flags: 'wx', mode: 0o600 })
    await (isPacked
      ? pipeline(texts, createGzip(), output, { signal })
      : pipeline(texts, output, { signal }))
    syncFile(partial)
    renameSync(partial, file)
    syncFolder(dirname(file))
  } catch (error) {
    rmSync(partial, { force: true })
    throw toWriteError(file, error)
  }
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
