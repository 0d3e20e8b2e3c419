import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import type { TextSource } from './decode-text.ts'
import { MAX_ROW_BYTES, TOO_LONG } from './format.ts'

const NEWLINE = 10
const CARRIAGE_RETURN = 13

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** The records of newline-delimited JSON, in chunks. Empty lines are skipped. */
export async function* ndjsonRecords(
  chunks: AsyncIterable<Buffer>,
  { encoding }: TextSource,
): AsyncGenerator<readonly ImportRecord[]> {
  let line = 0
  let rest: Buffer[] = []
  let restBytes = 0

  function keep(part: Buffer): void {
    // Drops the rest of a line that is too long, so that it does not fill the memory.
    if (restBytes <= MAX_ROW_BYTES) rest.push(part)
    restBytes += part.length
  }

  function endLine(): ImportRecord | undefined {
    line++
    const bytes = rest.length === 1 ? (rest[0] as Buffer) : Buffer.concat(rest)
    const endBytes = bytes.at(-1) === CARRIAGE_RETURN ? 1 : 0
    const isTooLong = restBytes - endBytes > MAX_ROW_BYTES
    rest = []
    restBytes = 0
    return isTooLong ? { line, raw: '', content: TOO_LONG } : recordOf(line, bytes, encoding)
  }

  for await (const chunk of chunks) {
    const records: ImportRecord[] = []
    let start = 0
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      keep(chunk.subarray(start, end))
      start = end + 1
      const record = endLine()
      if (record !== undefined) records.push(record)
    }
    if (start < chunk.length) keep(chunk.subarray(start))
    yield records
  }
  const last = restBytes > 0 ? endLine() : undefined
  if (last !== undefined) yield [last]
}

/** Decoding removes a byte order mark, which JSON does not allow. */
function recordOf(line: number, bytes: Buffer, encoding?: string): ImportRecord | undefined {
  let raw: string
  try {
    raw = UTF_8.decode(bytes).trim()
  } catch {
    return {
      line,
      raw: bytes.toString('latin1'),
      content: { problem: `is not ${encoding ?? 'UTF-8'}` },
    }
  }
  if (raw === '') return undefined
  try {
    return { line, raw, content: { row: JSON.parse(raw) } }
  } catch {
    const hint = line === 1 ? '; for a CSV file, add --format csv' : ''
    return { line, raw, content: { problem: `is not JSON${hint}` } }
  }
}
