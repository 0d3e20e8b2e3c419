import {
  accessSync,
  appendFileSync,
  constants,
  createReadStream,
  createWriteStream,
  type ReadStream,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { addAbortSignal, PassThrough } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import type { Config } from '../../config/settings.ts'
import { maskCredentials } from '../../config/url-parts.ts'
import { OperatorError, readFailureInWords } from '../../errors.ts'
import { partialNameOf, removeLeftovers, syncFile, syncFolder } from '../../files/durable-files.ts'
import { isFileOfDatabase } from '../../open-database.ts'
import { nameOf, type RejectsSink } from '../../users/transfer/user-import.ts'
import { type Terminal, toWriteError, UsageError, write } from '../terminal/terminal.ts'
import { STANDARD_STREAM } from './format.ts'

export interface FileOptions {
  readonly terminal: Terminal
  readonly signal: AbortSignal
  /** Whether the file is packed with gzip. Ignored for a standard stream. */
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
 * Opens a file or standard input. Throws `OperatorError` for a file that cannot be read.
 *
 * `chunks` are unpacked bytes. An abort makes them throw the reason of the signal. They throw `OperatorError` if reading
 * fails, or if they begin like gzip, or with a mark of UTF-16. Other bytes that are not UTF-8 are not detected here.
 *
 * `share` is the part of the file, from 0 to 1, that was read for earlier chunks; `undefined` if its length is unknown.
 */
export function openInputFile(file: string, options: FileOptions) {
  const { terminal, signal } = options
  const isStandard = file === STANDARD_STREAM
  const isPacked = options.isPacked && !isStandard
  const size = isStandard ? 0 : sizeOf(file)
  let readBytes = 0

  async function* chunks(): AsyncGenerator<Buffer> {
    signal.throwIfAborted()
    const highWaterMark = isPacked ? PACKED_CHUNK_BYTES : CHUNK_BYTES
    // Opened at the first read: before that, nobody would catch its error.
    const source = isStandard ? terminal.stdin() : createReadStream(file, { highWaterMark })
    addAbortSignal(signal, source)
    let isStart = true
    try {
      for await (const bytes of isPacked ? unpack(source as ReadStream, file) : source) {
        if (isStart) requireText(bytes, nameOf(file))
        isStart = false
        yield bytes
        if ('bytesRead' in source) readBytes = source.bytesRead
      }
    } catch (error) {
      signal.throwIfAborted()
      throw toReadError(file, error)
    }
  }

  return {
    chunks: chunks(),
    share: () => (size === 0 ? undefined : Math.min(1, readBytes / size)),
  }
}

function sizeOf(file: string): number {
  try {
    accessSync(file, constants.R_OK)
    const stats = statSync(file)
    if (!stats.isDirectory()) return stats.size
  } catch (error) {
    throw toReadError(file, error)
  }
  throw new OperatorError([`${file} is a folder`])
}

function toReadError(file: string, error: unknown): unknown {
  const why = readFailureInWords(error)
  if (error instanceof OperatorError || why === undefined) return error
  return new OperatorError([`${maskCredentials(nameOf(file))} cannot be read (${why})`], {
    cause: error,
  })
}

/** Two common mistakes, which would otherwise be reported as text that cannot be read. */
function requireText([first, second]: Buffer, name: string): void {
  if (first === 0x1f && second === 0x8b) {
    const how = 'gunzip unpacks it, and so does an import of a file whose name ends in .gz'
    throw new OperatorError([`${name} is packed with gzip; ${how}`])
  }
  const isLittle = first === 0xff && second === 0xfe
  if (!isLittle && !(first === 0xfe && second === 0xff)) return
  const order = isLittle ? 'LE' : 'BE'
  const convert = `iconv -f UTF-16${order} -t UTF-8`
  throw new OperatorError([`${name} is UTF-16 ${order} and not UTF-8; ${convert} converts it`])
}

/**
 * Unpacked chunks. If the data are damaged or incomplete, yields those before that place, then throws `OperatorError`.
 */
async function* unpack(source: ReadStream, file: string): AsyncGenerator<Buffer> {
  let failure: NodeJS.ErrnoException | undefined
  const gunzip = createGunzip({ chunkSize: CHUNK_BYTES })
  // A stream that fails drops what it holds. This one takes the good chunks before.
  const unpacked = new PassThrough()
  source.on('error', error => gunzip.destroy(error))
  gunzip.on('error', error => {
    failure = error
    unpacked.end()
  })
  source.pipe(gunzip).pipe(unpacked)
  try {
    yield* unpacked
  } finally {
    source.destroy()
  }
  if (failure === undefined && source.bytesRead > 0) return
  if (failure?.code?.startsWith('Z_') === false) throw failure
  const { message } = failure ?? new Error('unexpected end of file')
  const problem = GZIP_PROBLEMS.get(message) ?? `is damaged: its gzip data has an ${message}`
  throw new OperatorError([`${file} ${problem}`])
}

const GZIP_PROBLEMS = new Map([
  ['unexpected end of file', 'is cut off: the end of its gzip data is missing'],
  ['incorrect header check', 'is not gzip, although its name ends in .gz'],
])

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
