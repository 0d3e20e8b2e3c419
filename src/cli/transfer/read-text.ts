import { isUtf8 } from 'node:buffer'
import { accessSync, constants, createReadStream, type Stats, statSync } from 'node:fs'
import { addAbortSignal, pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { maskCredentials } from '../../config/url-parts.ts'
import { OperatorError, readFailureInWords } from '../../errors.ts'
import { nameOf } from '../../users/transfer/user-import.ts'
import type { Terminal } from '../terminal/terminal.ts'
import { STANDARD_STREAM, WORKBOOK_HINT } from './format.ts'
import { createDecoder, WrongByte } from './wrong-encoding.ts'

export interface TextOptions {
  readonly terminal: Terminal
  readonly signal: AbortSignal
  /** Whether the name of the file ends in `.gz`. Ignored for standard input. */
  readonly isPacked: boolean
  /** A name from `encodingOf`. If left out, the text is UTF-8. A byte order mark names it better. */
  readonly encoding?: string | undefined
}

/** A file or standard input as text. */
export interface OpenText {
  /** Its name in messages. */
  readonly file: string
  /** If left out, it is UTF-8. */
  readonly encoding: string | undefined
  /** Whether more may come later, as from a pipe. */
  readonly isStream: boolean
  /**
   * Its text without a byte order mark, unpacked if it is gzip, to be read once. An abort makes it throw the reason of the
   * signal. Throws `WrongByte` after the text before that byte, and `OperatorError` if the file cannot be read or is no text.
   */
  readonly texts: AsyncGenerator<string>
  /** The part of the file, from 0 to 1, that was read for earlier texts; `undefined` if its length is unknown. */
  readonly share: () => number | undefined
}

/** A transaction never has rows of two chunks. This size is enough for a full transaction, and takes little memory. */
const CHUNK_BYTES = 1024 * 1024

/** Opens a file to be read as text. Throws `OperatorError` for one that cannot be read. */
export function openText(path: string, options: TextOptions): OpenText {
  const { terminal, signal, isPacked } = options
  const isStandard = path === STANDARD_STREAM
  const file = nameOf(path)
  const stats = isStandard ? undefined : statsOf(path)
  const size = stats?.size ?? 0
  let readBytes = 0

  async function* bytes(): AsyncGenerator<Buffer> {
    // Opened at the first read: before that, nobody would catch its error.
    const source = isStandard
      ? terminal.stdin()
      : createReadStream(path, { highWaterMark: isPacked ? CHUNK_BYTES / 16 : CHUNK_BYTES })
    addAbortSignal(signal, source)
    for await (const chunk of unpack(source)) {
      yield chunk
      if ('bytesRead' in source) readBytes = source.bytesRead
    }
  }

  async function* unpack(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const { start, all } = await readStart(source)
    const isGzip = start[0] === 0x1f && start[1] === 0x8b
    if (isPacked && !isGzip && start.length > 0)
      throw new OperatorError([`${file} is not gzip, although its name ends in .gz`])
    if (isPacked && start.length === 0) throw new OperatorError([`${file} is cut off: it is empty`])
    yield* isGzip ? pipeline(all, createGunzip({ chunkSize: CHUNK_BYTES }), () => {}) : all
  }

  async function* texts(): AsyncGenerator<string> {
    try {
      signal.throwIfAborted()
      yield* decode(bytes(), file, options.encoding)
    } catch (error) {
      signal.throwIfAborted()
      throw error instanceof WrongByte ? error : toReadError(file, error)
    }
  }

  return {
    file,
    encoding: options.encoding,
    isStream: stats?.isFile() !== true,
    texts: texts(),
    share: () => (size === 0 ? undefined : Math.min(1, readBytes / size)),
  }
}

function statsOf(path: string): Stats {
  try {
    accessSync(path, constants.R_OK)
    const stats = statSync(path)
    if (!stats.isDirectory()) return stats
  } catch (error) {
    throw toReadError(path, error)
  }
  throw new OperatorError([`${path} is a folder`])
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

/** The length of the mark of a workbook, which is the longest. */
const START_BYTES = 4

/** The first bytes, fewer than `START_BYTES` only of a shorter file, and all of them with what follows. */
async function readStart(chunks: AsyncIterable<Buffer>) {
  const rest = chunks[Symbol.asyncIterator]()
  let start: Buffer = Buffer.alloc(0)
  while (start.length < START_BYTES) {
    const { value, done } = await rest.next()
    if (done) break
    start = start.length === 0 ? value : Buffer.concat([start, value])
  }
  async function* all(): AsyncGenerator<Buffer> {
    try {
      yield start
      yield* { [Symbol.asyncIterator]: () => rest }
    } finally {
      await rest.return?.()
    }
  }
  return { start, all: all() }
}

const BYTE_ORDER_MARKS = [
  { encoding: 'utf-8', mark: Buffer.of(0xef, 0xbb, 0xbf) },
  { encoding: 'utf-16le', mark: Buffer.of(0xff, 0xfe) },
  { encoding: 'utf-16be', mark: Buffer.of(0xfe, 0xff) },
]

async function* decode(
  bytes: AsyncIterable<Buffer>,
  file: string,
  encoding = 'utf-8',
): AsyncGenerator<string> {
  const { start, all } = await readStart(bytes)
  requireNoWorkbook(start, file)
  const marked = BYTE_ORDER_MARKS.find(({ mark }) => start.subarray(0, mark.length).equals(mark))
  const actual = marked?.encoding ?? encoding
  if (actual !== 'utf-8') yield* decodeOther(all, actual, marked?.mark.length)
  else {
    if (marked === undefined) requireNoUtf16(start, file)
    yield* decodeUtf8(all, marked?.mark.length)
  }
}

function requireNoWorkbook(start: Buffer, file: string): void {
  const mark = start.toString('latin1', 0, START_BYTES)
  if (mark === '\xd0\xcf\x11\xe0') throw new OperatorError([`${file} ${WORKBOOK_HINT}`])
  // Only its last bytes tell what is in it.
  if (mark === 'PK\x03\x04')
    throw new OperatorError([`${file} is a ZIP file, or ${WORKBOOK_HINT.slice('is '.length)}`])
}

/** CSV and JSON begin with ASCII, of which UTF-16 makes pairs with a zero byte. */
function requireNoUtf16([first, second]: Buffer, file: string): void {
  if (first === undefined || second === undefined || (first === 0) === (second === 0)) return
  const encoding = second === 0 ? 'utf-16le' : 'utf-16be'
  throw new OperatorError([
    `${file} is not UTF-8; it looks like UTF-16: add --encoding ${encoding}`,
  ])
}

async function* decodeUtf8(chunks: AsyncIterable<Buffer>, skip = 0): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  let skipped = skip
  for await (const chunk of chunks) {
    const bytes = Buffer.concat([rest, chunk.subarray(skipped)])
    skipped = 0
    // A chunk may end inside a character, of which it has up to three bytes.
    const cut = [0, 1, 2, 3].find(count => isUtf8(bytes.subarray(0, bytes.length - count)))
    const right = cut === undefined ? rightStart(bytes) : bytes.subarray(0, bytes.length - cut)
    yield right.toString()
    rest = bytes.subarray(right.length)
    if (cut === undefined) throw new WrongByte(rest)
  }
  if (rest.length > 0) throw new WrongByte(rest)
}

/** The whole characters before the first byte that is not UTF-8. A U+FFFD there may be real. */
function rightStart(bytes: Buffer): Buffer {
  const decoded = Buffer.from(bytes.toString())
  let length = 0
  while (decoded[length] === bytes[length]) length++
  while (!isUtf8(bytes.subarray(0, length))) length--
  return bytes.subarray(0, length)
}

async function* decodeOther(
  chunks: AsyncIterable<Buffer>,
  encoding: string,
  skip = 0,
): AsyncGenerator<string> {
  const decoder = createDecoder(encoding)
  let skipped = skip
  for await (const chunk of chunks) {
    yield* decoder(chunk.subarray(skipped), true)
    skipped = 0
  }
  yield* decoder(Buffer.alloc(0), false)
}
