import { OperatorError } from '../../errors.ts'
import { UsageError } from '../terminal/terminal.ts'

/** Where a text ends, because a byte there has no meaning in its encoding. Whoever reads the text knows the line. */
export class WrongByte extends Error {
  /** What follows from that byte on, as far as it was read. Empty if the encoding was chosen. */
  readonly rest: Buffer

  constructor(rest: Buffer) {
    super('a byte has no meaning in the encoding of the text')
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

/** Decodes chunks of a text that is not UTF-8. Throws `WrongByte` after the text before that byte. */
export function createDecoder(encoding: string) {
  // Its U+FFFD may be real, unless the strict one fails.
  const decoder = new TextDecoder(encoding)
  const strict = new TextDecoder(encoding, { fatal: true })
  return function* decode(chunk: Buffer, stream: boolean): Generator<string> {
    if (encoding === 'windows-1252') yield decodeWindows1252(chunk)
    else {
      const text = decoder.decode(chunk, { stream })
      try {
        strict.decode(chunk, { stream })
      } catch {
        yield text.slice(0, Math.max(0, text.indexOf('\ufffd')))
        throw new WrongByte(Buffer.alloc(0))
      }
      yield text
    }
  }
}

/** Windows-1252 at 0x80 to 0x9F. */
const WINDOWS_1252 = '€\u0081‚ƒ„…†‡ˆ‰Š‹Œ\u008dŽ\u008f\u0090‘’“”•–—˜™š›œ\u009džŸ'

/** `TextDecoder` of some releases of Node takes it for Latin-1: https://github.com/nodejs/node/issues/56542. */
function decodeWindows1252(bytes: Buffer): string {
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

/** What ends at a wrong byte: where it is, and the text with that byte by which a person can choose the encoding. */
export interface WrongPlace {
  readonly file: string
  readonly encoding: string | undefined
  readonly line: number
  /** A name, or another text that is no password, each unit a byte. */
  readonly sample: string | undefined
}

/** The encoding cannot be recognised, so the sample is shown in each likely one. */
export function wrongEncoding({ file, encoding, line, sample }: WrongPlace): OperatorError {
  if (encoding !== undefined)
    return new OperatorError([`${file} is not ${encoding} at line ${line}`])
  const shown = new Map<string, string>()
  for (const name of LIKELY) {
    const text =
      sample && decodedAs(name, Buffer.from(sample, 'latin1').subarray(0, MAX_SHOWN_BYTES))
    if (text !== undefined && !shown.has(text)) shown.set(text, name)
  }
  const start = `${file} is not UTF-8 at line ${line}`
  if (shown.size === 0) {
    const names = LIKELY.slice(0, 3).join(', ')
    return new OperatorError([
      `${start}: add the --encoding in which it was saved, such as ${names}`,
    ])
  }
  const choices = Array.from(shown, ([text, name]) => `  --encoding ${name.padEnd(13)} ${text}`)
  return new OperatorError([`${start}: add the --encoding in which this reads right`, ...choices])
}

/** `undefined` for bytes that are no text in this encoding. */
function decodedAs(encoding: string, bytes: Buffer): string | undefined {
  try {
    const text =
      encoding === 'windows-1252'
        ? decodeWindows1252(bytes)
        : new TextDecoder(encoding, { fatal: true }).decode(bytes)
    return /\p{Cc}/u.test(text) ? undefined : text.trim()
  } catch {
    return undefined
  }
}
