import {
  accessSync,
  appendFileSync,
  constants,
  createReadStream,
  createWriteStream,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  truncateSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { addAbortSignal } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Config } from '../../config/settings.ts'
import { maskCredentials } from '../../config/url-parts.ts'
import { OperatorError, readFailureInWords } from '../../errors.ts'
import { partialNameOf, removeLeftovers, syncFile, syncFolder } from '../../files/durable-files.ts'
import { isFileOfDatabase } from '../../open-database.ts'
import { nameOf, type RejectsSink } from '../../users/transfer/user-import.ts'
import { notify, type Terminal, toWriteError, UsageError, write } from '../terminal/terminal.ts'
import { afterStart } from './chunks.ts'
import { STANDARD_STREAM } from './format.ts'
import { GZIP_MAGIC, gunzip } from './gunzip.ts'

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

/** A transaction never has rows of two chunks. This size is enough for a full transaction, and takes little memory. */
const CHUNK_BYTES = 1024 * 1024

const PACKED_CHUNK_BYTES = 64 * 1024

/**
 * A file or standard input. Throws `OperatorError` for a file that cannot be read.
 *
 * `read` gives its bytes from the start, unpacked if they are gzip. An abort makes it throw the reason of the signal. It
 * throws `OperatorError` if reading fails. Only a file with `canRepeat` can be read again.
 *
 * `share` is the part of the file, from 0 to 1, that was read for earlier chunks; `undefined` if its length is unknown.
 */
export function openInputFile(file: string, { terminal, signal, isPacked }: FileOptions) {
  const isStandard = file === STANDARD_STREAM
  const stats = isStandard ? undefined : statsOf(file)
  const size = stats?.size ?? 0
  let readBytes = 0

  async function* read(): AsyncGenerator<Buffer> {
    signal.throwIfAborted()
    const highWaterMark = isPacked ? PACKED_CHUNK_BYTES : CHUNK_BYTES
    // Opened at the first read: before that, nobody would catch its error.
    const source = isStandard ? terminal.stdin() : createReadStream(file, { highWaterMark })
    addAbortSignal(signal, source)
    try {
      for await (const bytes of afterStart(source, hasMagic, unpack)) {
        yield bytes
        if ('bytesRead' in source) readBytes = source.bytesRead
      }
    } catch (error) {
      signal.throwIfAborted()
      throw toReadError(file, error)
    }
  }

  const hasMagic = (start: Buffer) => start.length >= GZIP_MAGIC.length

  function unpack(start: Buffer, all: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
    const isGzip = start.subarray(0, GZIP_MAGIC.length).equals(GZIP_MAGIC)
    if (isGzip || (isPacked && start.length === 0))
      return gunzip(all, () =>
        notify(terminal, `${nameOf(file)}: bytes after its gzip data are ignored`),
      )
    if (isPacked) throw new OperatorError([`${file} is not gzip, although its name ends in .gz`])
    return all
  }

  return {
    read,
    canRepeat: stats?.isFile() ?? false,
    share: () => (size === 0 ? undefined : Math.min(1, readBytes / size)),
  }
}

function statsOf(file: string): Stats {
  try {
    accessSync(file, constants.R_OK)
    const stats = statSync(file)
    if (!stats.isDirectory()) return stats
  } catch (error) {
    throw toReadError(file, error)
  }
  throw new OperatorError([`${file} is a folder`])
}

function toReadError(file: string, error: unknown): unknown {
  if (error instanceof OperatorError) return error
  const name = maskCredentials(nameOf(file))
  const { code, message } = error as NodeJS.ErrnoException
  if (code?.startsWith('Z_')) {
    const isCutOff = message === 'unexpected end of file'
    return new OperatorError([
      isCutOff
        ? `${name} is cut off: the end of its gzip data is missing`
        : `${name} is damaged: its gzip data has an ${message}`,
    ])
  }
  const why = readFailureInWords(error)
  return why === undefined
    ? error
    : new OperatorError([`${name} cannot be read (${why})`], { cause: error })
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
