import { OperatorError } from '../../errors.ts'

const MAX_MARK_BYTES = 2

/** Passes chunks on. Throws `OperatorError`, which names the file, if they begin like gzip, or with a mark of UTF-16. */
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

function checkStart([first, second]: Buffer, file: string): void {
  if (first === 0x1f && second === 0x8b) {
    const how = 'gunzip unpacks it, and so does an import of a file whose name ends in .gz'
    throw new OperatorError([`${file} is packed with gzip; ${how}`])
  }
  const isLittle = first === 0xff && second === 0xfe
  if (isLittle || (first === 0xfe && second === 0xff)) {
    const order = isLittle ? 'LE' : 'BE'
    const convert = `iconv -f UTF-16${order} -t UTF-8`
    throw new OperatorError([`${file} is UTF-16 ${order} and not UTF-8; ${convert} converts it`])
  }
}
