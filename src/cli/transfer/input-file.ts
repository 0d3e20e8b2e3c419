import { accessSync, constants, createReadStream, type ReadStream, statSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { OperatorError } from '../../errors.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { STANDARD_STREAM } from './file-format.ts'
import { gunzipChunks, MAX_PACKED_BYTES } from './gzip.ts'
import { rejectGzipAndUtf16 } from './input-encoding.ts'

/** The input of a command. */
export interface InputFile {
  /**
   * Unpacked bytes. An abort makes them throw the reason of the signal. They throw `OperatorError` if reading fails, or
   * if they begin like gzip, or with a mark of UTF-16. Other bytes that are not UTF-8 are not detected here.
   */
  readonly chunks: AsyncIterable<Buffer>
  /** The share of the file that has been read, from 0 to 1; `undefined` if the length of the file is unknown. */
  share(): number | undefined
}

/** A transaction never has rows of two chunks. This size is enough for a full transaction, and takes little memory. */
const CHUNK_BYTES = 1024 * 1024

export interface InputOptions {
  readonly terminal: Pick<Terminal, 'stdin'>
  readonly signal: AbortSignal
  /** Whether the file is packed with gzip. Ignored for standard input. */
  readonly isPacked?: boolean
}

/** Opens a file or standard input. Throws `OperatorError` for a file that cannot be read. */
export function openInputFile(file: string, options: InputOptions): InputFile {
  const { terminal, signal, isPacked = false } = options
  if (file === STANDARD_STREAM) {
    const chunks = readUntilAborted(() => terminal.stdin, signal)
    return { chunks: rejectGzipAndUtf16(chunks, 'standard input'), share: () => undefined }
  }
  const bytes = checkReadable(file)
  let readBytes = 0
  const highWaterMark = isPacked ? MAX_PACKED_BYTES : CHUNK_BYTES
  // Opened at the first read: before that, nobody would catch its error.
  const chunks = readUntilAborted(() => createReadStream(file, { highWaterMark }), signal)
  // Counts only the chunks that were taken, not what the stream has read ahead.
  async function* counted(): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      readBytes += chunk.length
      yield chunk
    }
  }
  return {
    chunks: rejectGzipAndUtf16(isPacked ? gunzipChunks(counted(), file) : counted(), file),
    share: () => (bytes === 0 ? undefined : Math.min(1, readBytes / bytes)),
  }
}

function checkReadable(file: string): number {
  try {
    const stats = statSync(file)
    if (stats.isDirectory()) throw new OperatorError([`${file} is a folder`])
    accessSync(file, constants.R_OK)
    return stats.size
  } catch (error) {
    if (error instanceof OperatorError) throw error
    throw toReadError(file, error)
  }
}

async function* readUntilAborted(
  open: () => Readable,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  signal.throwIfAborted()
  const stream = open()
  const stop = () => stream.destroy(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    for await (const chunk of stream) yield chunk as Buffer
  } catch (error) {
    throw error === signal.reason ? error : toReadError((stream as ReadStream).path, error)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function toReadError(file: ReadStream['path'] | undefined, error: unknown): OperatorError {
  const { code } = error as NodeJS.ErrnoException
  return new OperatorError([`${file ?? 'standard input'} cannot be read (${code})`], {
    cause: error,
  })
}
