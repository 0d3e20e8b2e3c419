import { accessSync, constants, createReadStream, type ReadStream, statSync } from 'node:fs'
import { OperatorError } from '../errors.ts'
import { STANDARD_STREAM } from './file-format.ts'

/** What a command reads. */
export interface InputFile {
  /** Throws the reason of the signal, and `OperatorError` where no more can be read. */
  readonly chunks: AsyncIterable<Buffer>
  /** How much of it is read, from 0 to 1, where its length is known. */
  share(): number | undefined
}

/** Enough rows for a transaction, which takes no more than those of a chunk, and still little memory. */
const CHUNK_BYTES = 1024 * 1024

/** A file or standard input. Throws `OperatorError` for a file that cannot be read. */
export function openInputFile(file: string, signal: AbortSignal): InputFile {
  if (file === STANDARD_STREAM) {
    return { chunks: untilAborted(() => process.stdin, signal), share: () => undefined }
  }
  const bytes = sizeOf(file)
  let stream: ReadStream | undefined
  // Opened by who reads it, because until then nobody hears that it failed.
  const opened = () => {
    stream = createReadStream(file, { highWaterMark: CHUNK_BYTES })
    return stream
  }
  return {
    chunks: untilAborted(opened, signal),
    share: () => (bytes === 0 ? undefined : Math.min(1, (stream?.bytesRead ?? 0) / bytes)),
  }
}

function sizeOf(file: string): number {
  try {
    const stats = statSync(file)
    if (stats.isDirectory()) throw new OperatorError([`${file} is a folder`])
    accessSync(file, constants.R_OK)
    return stats.size
  } catch (error) {
    if (error instanceof OperatorError) throw error
    throw unreadable(file, error)
  }
}

async function* untilAborted(
  opened: () => NodeJS.ReadStream | ReadStream,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  signal.throwIfAborted()
  const stream = opened()
  const stop = () => stream.destroy(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    for await (const chunk of stream) yield chunk as Buffer
  } catch (error) {
    throw error === signal.reason ? error : unreadable((stream as ReadStream).path, error)
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function unreadable(file: ReadStream['path'] | undefined, error: unknown): OperatorError {
  const { code } = error as NodeJS.ErrnoException
  return new OperatorError([`${file ?? 'standard input'} cannot be read (${code})`], {
    cause: error,
  })
}
