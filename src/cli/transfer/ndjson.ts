import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { createJsonTable } from './json-table.ts'
import { fieldLike } from './look-alikes.ts'
import { MAX_ROW_CHARS, type RowReader, TOO_LONG } from './row-reader.ts'

/** Reads a value of JSON from each line. Empty lines are skipped. */
export function openNdjson(): RowReader {
  let line = 1
  /** The part of the current line in earlier texts. Of one that is too long, its end, which does not fill the memory. */
  let rest = ''

  function recordOf(text: string, line: number): readonly ImportRecord[] {
    const raw = text.trim()
    if (raw.length > MAX_ROW_CHARS) return [{ line, raw: '', content: TOO_LONG }]
    if (raw === '') return []
    try {
      return [{ line, raw, content: { row: JSON.parse(raw) } }]
    } catch {
      const hint = line === 1 ? '; for a CSV file, add --format csv' : ''
      return [{ line, raw, content: { problem: `is not JSON${hint}` } }]
    }
  }

  return {
    push: text => {
      const lines = text.split('\n')
      lines[0] = rest + lines[0]
      rest = (lines.pop() as string).slice(-MAX_ROW_CHARS - 2)
      const start = line
      line += lines.length
      return lines.flatMap((text, index) => recordOf(text, start + index))
    },
    end: () => [recordOf(rest, line)],
    line: () => line,
    sampleOf: bytes => sampleOfJson(rest, bytes),
    tableOf: ({ rows }, options) => createJsonTable(rows, options, []),
  }
}

/** The text that goes on with a wrong byte, unless it is a password. */
export function sampleOfJson(before: string, rest: string): string | undefined {
  const member = /"([^"\\]{1,99})"\s{0,9}:\s{0,9}"([^"\\]{0,99})$/.exec(before.slice(-300))
  const [, name, start = ''] = member ?? []
  const [end = ''] = rest.slice(0, 200).split('"', 1)
  return name === undefined || fieldLike(name)?.startsWith('password') ? undefined : start + end
}
