import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { MAX_ROW_CHARS, TOO_LONG } from './format.ts'
import { sampleOfJson } from './read-json.ts'
import { explainWrongByte } from './wrong-encoding.ts'

/**
 * The records of newline-delimited JSON, in chunks. Empty lines are skipped. Throws `OperatorError` at a byte that has no
 * meaning, after the rows before its line.
 */
export async function* readNdjson(
  texts: AsyncIterable<string>,
): AsyncGenerator<readonly ImportRecord[]> {
  let line = 0
  let rest = ''
  let isTooLong = false
  try {
    for await (const text of texts) {
      const lines = text.split('\n')
      lines[0] = rest + lines[0]
      rest = lines.pop() as string
      const records: ImportRecord[] = []
      for (const [index, raw] of lines.entries()) {
        const record = recordOf(raw, ++line, isTooLong && index === 0)
        if (record !== undefined) records.push(record)
      }
      if (lines.length > 0) isTooLong = false
      // Drops the start of a line that is too long, so that it does not fill the memory.
      isTooLong ||= rest.length > MAX_ROW_CHARS + 1
      if (isTooLong) rest = ''
      yield records
    }
  } catch (error) {
    throw explainWrongByte(error, line + 1, bytes => sampleOfJson(rest, bytes))
  }
  const last = recordOf(rest, line + 1, isTooLong)
  if (last !== undefined) yield [last]
}

function recordOf(text: string, line: number, isTooLong: boolean): ImportRecord | undefined {
  const raw = text.trim()
  if (isTooLong || raw.length > MAX_ROW_CHARS) return { line, raw: '', content: TOO_LONG }
  if (raw === '') return undefined
  try {
    return { line, raw, content: { row: JSON.parse(raw) } }
  } catch {
    const hint = line === 1 ? '; for a CSV file, add --format csv' : ''
    return { line, raw, content: { problem: `is not JSON${hint}` } }
  }
}
