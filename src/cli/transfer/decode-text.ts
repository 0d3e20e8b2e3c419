import { isUtf8 } from 'node:buffer'
import { OperatorError } from '../../errors.ts'
import { UsageError } from '../terminal/terminal.ts'
import { afterStart } from './chunks.ts'
import { WORKBOOK_HINT } from './format.ts'

/** A text file. */
export interface TextSource {
  /** Its name in messages. */
  readonly file: string
  /** A name from `encodingOf`. If left out, it is UTF-8. */
  readonly encoding?: string | undefined
}

/** The name of an encoding in the Encoding Standard. Throws `UsageError` for one that `TextDecoder` does not know. */
export function encodingOf(label: string): string {
  try {
    return new TextDecoder(label).encoding
  } catch {
    const names = 'such as windows-1252, utf-16le or shift_jis'
    throw new UsageError(
      `--encoding ${JSON.stringify(label)} is not known; it takes the names of the Encoding Standard, ${names}`,
    )
  }
}

/** That of a workbook. */
const LONGEST_MARK = 4

const BYTE_ORDER_MARKS = [
  { encoding: 'utf-8', mark: Buffer.of(0xef, 0xbb, 0xbf) },
  { encoding: 'utf-16le', mark: Buffer.of(0xff, 0xfe) },
  { encoding: 'utf-16be', mark: Buffer.of(0xfe, 0xff) },
]

/**
 * The text as chunks of UTF-8 without a byte order mark, which names its encoding better than the option does.
 * Bytes that are not UTF-8 stay as they are, and those that have no meaning in another encoding become such bytes.
 *
 * Throws `OperatorError` for workbooks, and for UTF-16 without a mark or option.
 */
export function utf8Chunks(
  chunks: AsyncIterable<Buffer>,
  { file, encoding = 'utf-8' }: TextSource,
): AsyncGenerator<Buffer> {
  const hasMark = (start: Buffer) => start.length >= LONGEST_MARK
  return afterStart(chunks, hasMark, (start, all) => {
    requireNoWorkbook(start, file)
    const marked = BYTE_ORDER_MARKS.find(({ mark }) => start.subarray(0, mark.length).equals(mark))
    const actual = marked?.encoding ?? encoding
    if (marked === undefined && actual === 'utf-8') requireNoUtf16(start, file)
    const text = skipBytes(all, marked?.mark.length ?? 0)
    return actual === 'utf-8' ? text : toUtf8(text, actual)
  })
}

function requireNoWorkbook(start: Buffer, file: string): void {
  const mark = start.toString('latin1', 0, LONGEST_MARK)
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

async function* skipBytes(chunks: AsyncIterable<Buffer>, count: number): AsyncGenerator<Buffer> {
  let left = count
  for await (const chunk of chunks) {
    yield chunk.subarray(left)
    left = Math.max(0, left - chunk.length)
  }
}

/** Stands for bytes that have no meaning in another encoding. */
const NOT_UTF_8 = Buffer.of(0xff)

async function* toUtf8(chunks: AsyncIterable<Buffer>, encoding: string): AsyncGenerator<Buffer> {
  // Its U+FFFD may be real, unless the strict one fails.
  const decoder = new TextDecoder(encoding)
  const strict = new TextDecoder(encoding, { fatal: true })

  function decode(chunk: Buffer, stream: boolean): Buffer {
    if (encoding === 'windows-1252') return Buffer.from(decodeWindows1252(chunk))
    const text = decoder.decode(chunk, { stream })
    try {
      strict.decode(chunk, { stream })
      return Buffer.from(text)
    } catch {
      const parts = text.split('\ufffd').map(part => Buffer.from(part))
      return Buffer.concat(parts.flatMap((part, index) => (index === 0 ? part : [NOT_UTF_8, part])))
    }
  }

  for await (const chunk of chunks) yield decode(chunk, true)
  yield decode(Buffer.alloc(0), false)
}

/** Windows-1252 at 0x80 to 0x9F. */
const WINDOWS_1252 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ'

/** `TextDecoder` of some releases of Node takes it for Latin-1: https://github.com/nodejs/node/issues/56542. */
function decodeWindows1252(bytes: Buffer): string {
  return bytes
    .toString('latin1')
    .replace(/[\u0080-\u009f]/g, unit => WINDOWS_1252[unit.charCodeAt(0) - 0x80] as string)
}

/** The text of UTF-8 up to its first wrong byte, or to a character that the file cuts off. */
export async function* decodeUtf8(chunks: AsyncIterable<Buffer>) {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of chunks) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    // A chunk may end inside a character, of which it has up to three bytes.
    const cut = [0, 1, 2, 3].find(count => isUtf8(bytes.subarray(0, bytes.length - count)))
    const right = cut === undefined ? rightStart(bytes) : bytes.subarray(0, bytes.length - cut)
    yield { text: right.toString(), isWrong: cut === undefined }
    rest = bytes.subarray(right.length)
  }
  if (rest.length > 0) yield { text: '', isWrong: true }
}

/** The whole characters before the first byte that is not UTF-8. A U+FFFD there may be real. */
export function rightStart(bytes: Buffer): Buffer {
  const decoded = Buffer.from(bytes.toString())
  let length = 0
  while (decoded[length] === bytes[length]) length++
  while (!isUtf8(bytes.subarray(0, length))) length--
  return bytes.subarray(0, length)
}

/** The encoding cannot be recognised; that of spreadsheets is the most likely. */
export function wrongEncoding({ file, encoding }: TextSource, line: number): OperatorError {
  return new OperatorError([
    encoding === undefined
      ? `${file} is not UTF-8 at line ${line}; if a spreadsheet saved it, add --encoding windows-1252`
      : `${file} is not ${encoding} at line ${line}`,
  ])
}
