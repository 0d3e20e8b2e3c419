import { OperatorError } from '../../errors.ts'

const MAX_MARK_BYTES = 2

/** Passes chunks on. Throws `OperatorError`, which names the file, if they begin like gzip or UTF-16. */
export async function* rejectGzipAndUtf16(
  chunks: AsyncIterable<Buffer>,
  file: string,
): AsyncGenerator<Buffer> {
  let start: Buffer | undefined = Buffer.alloc(0)
  for await (const chunk of chunks) {
    if (start === undefined) {
      yield chunk
      continue
    }
    start = start.length === 0 ? chunk : Buffer.concat([start, chunk])
    if (start.length < MAX_MARK_BYTES) continue
    checkStart(start, file)
    yield start
    start = undefined
  }
  if (start !== undefined) yield start
}

function checkStart(start: Buffer, file: string): void {
  if (start[0] === 0x1f && start[1] === 0x8b) {
    const how = 'gunzip unpacks it, and so does an import of a file whose name ends in .gz'
    throw new OperatorError([`${file} is packed with gzip; ${how}`])
  }
  const order = utf16OrderOf(start)
  if (order !== undefined) {
    const convert = `iconv -f UTF-16${order} -t UTF-8`
    throw new OperatorError([`${file} is UTF-16 ${order} and not UTF-8; ${convert} converts it`])
  }
}

/** By the byte order mark, or by the first character: it is ASCII in every file that can be imported. */
function utf16OrderOf([first, second]: Buffer): 'LE' | 'BE' | undefined {
  if (first === 0xff && second === 0xfe) return 'LE'
  if (first === 0xfe && second === 0xff) return 'BE'
  if (first !== 0 && second === 0) return 'LE'
  return first === 0 && second !== 0 ? 'BE' : undefined
}
