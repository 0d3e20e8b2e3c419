import { isUtf8 } from 'node:buffer'
import { OperatorError } from '../../errors.ts'
import { UsageError } from '../terminal/terminal.ts'
import type { RowReader } from './row-reader.ts'

/** Where a text ends, because a byte there has no meaning in its encoding. Whoever reads the text knows the line. */
export class WrongByte extends OperatorError {
  /** What follows from that byte on, as far as it was read. Absent if the encoding was chosen. */
  readonly rest: Buffer | undefined

  constructor(file: string, encoding: string, rest?: Buffer) {
    super([`${file} is not ${encoding}`])
    this.rest = rest
  }
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

/** A function that decodes chunks, and then the end. It throws `WrongByte` after the text before that byte. */
export function createDecoder(file: string, encoding = 'utf-8') {
  if (encoding === 'utf-8') return createUtf8Decoder(file)
  // Its U+FFFD may be real, unless the strict one fails.
  const lenient = new TextDecoder(encoding)
  const strict = new TextDecoder(encoding, { fatal: true })
  return function* decode(chunk?: Buffer): Generator<string> {
    const options = { stream: chunk !== undefined }
    const text = lenient.decode(chunk, options)
    try {
      strict.decode(chunk, options)
    } catch {
      yield text.slice(0, Math.max(0, text.indexOf('\ufffd')))
      throw new WrongByte(file, encoding)
    }
    yield encoding === 'windows-1252' ? decodeWindows1252(chunk) : text
  }
}

function createUtf8Decoder(file: string) {
  let rest: Buffer = Buffer.alloc(0)
  return function* decode(chunk?: Buffer): Generator<string> {
    const bytes = Buffer.concat([rest, chunk ?? rest.subarray(0, 0)])
    // A chunk may end inside a character, of which it has up to three bytes.
    const cut = [0, 1, 2, 3].find(count => isUtf8(bytes.subarray(0, bytes.length - count)))
    const right = cut === undefined ? rightStart(bytes) : bytes.subarray(0, bytes.length - cut)
    yield right.toString()
    rest = bytes.subarray(right.length)
    if (cut === undefined || (chunk === undefined && rest.length > 0))
      throw new WrongByte(file, 'UTF-8', rest)
  }
}

/** The whole characters before the first byte that is not UTF-8. A U+FFFD there may be real. */
function rightStart(bytes: Buffer): Buffer {
  const decoded = Buffer.from(bytes.toString())
  let length = 0
  while (decoded[length] === bytes[length]) length++
  while (!isUtf8(bytes.subarray(0, length))) length--
  return bytes.subarray(0, length)
}

/** Windows-1252 at 0x80 to 0x9F. */
const WINDOWS_1252 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ'

/** `TextDecoder` of some releases of Node takes it for Latin-1: https://github.com/nodejs/node/issues/56542. */
function decodeWindows1252(bytes: Buffer = Buffer.alloc(0)): string {
  return bytes
    .toString('latin1')
    .replace(/[\u0080-\u009f]/g, unit => WINDOWS_1252[unit.charCodeAt(0) - 0x80] as string)
}

/** What spreadsheets and old databases write, the most common first. */
const LIKELY = [
  ...['windows-1252', 'windows-1250', 'windows-1251', 'windows-1253', 'windows-1254', 'macintosh'],
  ...['shift_jis', 'gb18030', 'euc-kr'],
]

const MAX_SHOWN_BYTES = 60

/**
 * What to do about a wrong byte: its line, and a text with it in each likely encoding, by which a person can choose. Any other
 * error stays as it is.
 */
export function explainWrongByte(
  error: unknown,
  { line, sampleOf }: Pick<RowReader, 'line' | 'sampleOf'>,
): unknown {
  if (!(error instanceof WrongByte)) return error
  const start = `${error.message} at line ${line()}`
  if (error.rest === undefined) return new OperatorError([start])
  const sample = sampleOf(error.rest.toString('latin1')) ?? ''
  const bytes = Buffer.from(sample.slice(0, MAX_SHOWN_BYTES), 'latin1')
  const encodings = new Map<string, string>()
  for (const name of LIKELY) {
    const text = decodedAs(name, bytes)
    if (text !== '' && !encodings.has(text)) encodings.set(text, name)
  }
  const how =
    encodings.size > 0
      ? 'this reads right'
      : `it was saved, such as ${LIKELY.slice(0, 3).join(', ')}`
  const choices = Array.from(encodings, ([text, name]) => `  --encoding ${name.padEnd(13)} ${text}`)
  return new OperatorError([`${start}: add the --encoding in which ${how}`, ...choices])
}

/** Empty for bytes that are no text in this encoding. */
function decodedAs(encoding: string, bytes: Buffer): string {
  try {
    const decode = createDecoder('', encoding)
    const text = [...decode(bytes), ...decode()].join('')
    return /\p{Cc}/u.test(text) ? '' : text.trim()
  } catch {
    return ''
  }
}
