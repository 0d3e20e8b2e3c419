import { createReadStream, type Stats, statSync } from 'node:fs'
import { addAbortSignal, pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { maskCredentials } from '../../config/url-parts.ts'
import { OperatorError, readFailureInWords } from '../../errors.ts'
import { nameOf } from '../../users/transfer/user-import.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { STANDARD_STREAM, WORKBOOK_HINT } from './format.ts'
import { createDecoder } from './text-encodings.ts'

export type OpenText = ReturnType<typeof openText>

export interface TextOptions {
  readonly terminal: Terminal
  readonly signal: AbortSignal
  /** Whether the name of the file ends in `.gz`. */
  readonly isPacked: boolean
  /** A name from `encodingOf`. If left out, the text is UTF-8. A byte order mark names it better. */
  readonly encoding?: string | undefined
}

/**
 * The first chunk shows what is in a file. A transaction never has rows of two chunks. This size is enough for a full one, and
 * takes little memory.
 */
const CHUNK_BYTES = 1024 * 1024

const GZIP_MARK = Buffer.of(0x1f, 0x8b)

/** A file or standard input as text without a byte order mark, unpacked if it is gzip. */
export function openText(path: string, { terminal, signal, isPacked, encoding }: TextOptions) {
  const file = nameOf(path)
  let stats: Stats | undefined
  let readBytes = 0

  async function* bytes(): AsyncGenerator<Buffer> {
    // Opened at the first read: before that, nobody would catch its error.
    const isStandard = path === STANDARD_STREAM
    stats = isStandard ? undefined : statSync(path)
    if (stats?.isDirectory()) throw new OperatorError([`${path} is a folder`])
    const source = isStandard
      ? terminal.stdin()
      : createReadStream(path, { highWaterMark: CHUNK_BYTES })
    for await (const chunk of addAbortSignal(signal, source)) {
      yield chunk
      readBytes += chunk.length
    }
  }

  async function* texts(): AsyncGenerator<string> {
    try {
      signal.throwIfAborted()
      const packed = await peek(joined(bytes(), GZIP_MARK.length))
      const isGzip = packed.first?.subarray(0, GZIP_MARK.length).equals(GZIP_MARK)
      if (isPacked && !isGzip)
        throw new OperatorError([`${file} is not gzip, although its name ends in .gz`])
      const unpacked = isGzip
        ? pipeline(packed.all, createGunzip({ chunkSize: CHUNK_BYTES }), () => {})
        : packed.all
      const { first: start = Buffer.alloc(0), all } = await peek(joined(unpacked, CHUNK_BYTES))
      const marked = BYTE_ORDER_MARKS.find(({ mark }) =>
        mark.equals(start.subarray(0, mark.length)),
      )
      const problem = binaryIn(start) ?? (marked || encoding ? undefined : utf16In(start))
      if (problem !== undefined) throw new OperatorError([`${file} ${problem}`])
      const decode = createDecoder(file, marked?.encoding ?? encoding)
      let skipped = marked?.mark.length ?? 0
      for await (const chunk of all) {
        yield* decode(chunk.subarray(skipped))
        skipped = 0
      }
      yield* decode()
    } catch (error) {
      signal.throwIfAborted()
      throw toReadError(file, error)
    }
  }

  return {
    /** Its name in messages. */
    file,
    /**
     * To be read once. An abort makes it throw the reason of the signal. Throws `WrongByte` after the text before that byte, and
     * `OperatorError` if the file cannot be read or is no text.
     */
    texts: texts(),
    /** The part of the file, from 0 to 1, that was read for earlier texts; `undefined` if its length is unknown. */
    share: () => (stats?.size ? Math.min(1, readBytes / stats.size) : undefined),
  }
}

/** The first value of a source, and all of them with it, to be read once. */
export async function peek<T>(source: AsyncGenerator<T>) {
  const result = await source.next()
  async function* all(): AsyncGenerator<T> {
    if (result.done) return
    yield result.value
    yield* source
  }
  return { first: result.done ? undefined : result.value, all: all() }
}

/** The same bytes in chunks of at least this size, but for the last one. One before an error may be smaller, too. */
async function* joined(source: AsyncIterable<Buffer>, minBytes: number): AsyncGenerator<Buffer> {
  let parts: Buffer[] = []
  let length = 0
  try {
    for await (const part of source) {
      parts.push(part)
      length += part.length
      if (length < minBytes) continue
      yield Buffer.concat(parts)
      parts = []
      length = 0
    }
  } catch (error) {
    if (length > 0) yield Buffer.concat(parts)
    throw error
  }
  if (length > 0) yield Buffer.concat(parts)
}

function toReadError(file: string, error: unknown): unknown {
  if (error instanceof OperatorError) return error
  const name = maskCredentials(file)
  const { code, message } = error as NodeJS.ErrnoException
  if (code === 'Z_BUF_ERROR')
    return new OperatorError([`${name} is cut off: the end of its gzip data is missing`])
  if (code?.startsWith('Z_'))
    return new OperatorError([`${name} is damaged: its gzip data has an ${message}`])
  const why = readFailureInWords(error)
  return why === undefined
    ? error
    : new OperatorError([`${name} cannot be read (${why})`], { cause: error })
}

const BYTE_ORDER_MARKS = [
  { encoding: 'utf-8', mark: Buffer.of(0xef, 0xbb, 0xbf) },
  { encoding: 'utf-16le', mark: Buffer.of(0xff, 0xfe) },
  { encoding: 'utf-16be', mark: Buffer.of(0xfe, 0xff) },
]

function binaryIn(start: Buffer): string | undefined {
  const mark = start.toString('latin1', 0, 4)
  if (mark === '\xd0\xcf\x11\xe0') return WORKBOOK_HINT
  // Only its last bytes tell what is in it.
  return mark === 'PK\x03\x04'
    ? `is a ZIP file, or ${WORKBOOK_HINT.slice('is '.length)}`
    : undefined
}

/** CSV and JSON begin with ASCII, of which UTF-16 makes pairs with a zero byte. */
function utf16In([first, second]: Buffer): string | undefined {
  if (first === undefined || second === undefined || (first === 0) === (second === 0))
    return undefined
  const encoding = second === 0 ? 'utf-16le' : 'utf-16be'
  return `is not UTF-8; it looks like UTF-16: add --encoding ${encoding}`
}
