import { isUtf8 } from 'node:buffer'
import { OperatorError } from '../../errors.ts'

/** The text of UTF-8 without a byte order mark, up to its first wrong byte, or to a character that the file cuts off. */
export async function* decodeUtf8(chunks: AsyncIterable<Buffer>) {
  let rest: Buffer = Buffer.alloc(0)
  let isStart = true
  for await (const chunk of chunks) {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    // A chunk may end inside a character, of which it has up to three bytes.
    const cut = [0, 1, 2, 3].find(count => isUtf8(bytes.subarray(0, bytes.length - count)))
    const right = cut === undefined ? rightStart(bytes) : bytes.subarray(0, bytes.length - cut)
    const whole = right.toString()
    yield { text: isStart ? whole.replace(/^\ufeff/, '') : whole, isWrong: cut === undefined }
    rest = bytes.subarray(right.length)
    isStart &&= whole === ''
  }
  if (rest.length > 0) yield { text: '', isWrong: true }
}

/** The whole characters before the first byte that is not UTF-8. A U+FFFD there may be real. */
function rightStart(bytes: Buffer): Buffer {
  const decoded = Buffer.from(bytes.toString())
  let length = 0
  while (decoded[length] === bytes[length]) length++
  while (!isUtf8(bytes.subarray(0, length))) length--
  return bytes.subarray(0, length)
}

/** The encoding cannot be recognised; that of spreadsheets is the most likely. */
export function notUtf8(file: string, line: number): OperatorError {
  const option = 'if a spreadsheet saved it, add --encoding windows-1252'
  return new OperatorError([`${file} is not UTF-8 at line ${line}; ${option}`])
}
