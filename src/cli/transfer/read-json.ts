import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { SQL_HINT } from './format.ts'
import { openDocument, sampleOfJson } from './json-document.ts'
import {
  MAX_ROW_CHARS,
  type ReaderOptions,
  type RowFormat,
  type RowReader,
  TOO_LONG,
} from './read-rows.ts'

/** NDJSON, or a document of JSON: its first line, and whether more follows, show which. */
export const JSON_ROWS: RowFormat = {
  isEnough: text => {
    const start = text.trimStart()
    const end = start.indexOf('\n')
    return start.length > MAX_ROW_CHARS || (end >= 0 && start.slice(end).trim() !== '')
  },
  openReader: (text, options) => {
    const { at, file, name } = options
    const start = text.slice(0, MAX_ROW_CHARS).trimStart()
    // Each line of NDJSON is rejected for itself.
    if (name !== 'ndjson' && !/^([[{]|$)/.test(start)) {
      const isSql = /^(--|\/\*|(COPY|INSERT|CREATE|SET)\s)/i.test(start)
      const hint = isSql ? SQL_HINT : 'is not JSON; for a CSV file, add --format csv'
      throw new OperatorError([`${file} ${hint}`])
    }
    return at === undefined && hasRowPerLine(start, name) ? openNdjson() : openDocument(options)
  },
}

/** Whether each line is a row. Otherwise there is one document, or objects of several lines. */
function hasRowPerLine(start: string, format: ReaderOptions['name']): boolean {
  const [, line = '', others = ''] = /^([^\n]*)(.*)$/s.exec(start) ?? []
  const isMore = others.trim() !== ''
  if (format !== 'ndjson')
    return isMore ? line.startsWith('{') && isJson(line) : start === '' && format === undefined
  // A row may have a mistake. An array on a line is a document, and so is what goes on at the next line.
  return isJson(line) ? isMore || !line.startsWith('[') : !isMore || !/[{[,]\s*$/.test(line)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Reads a value of JSON from each line. Empty lines are skipped. */
function openNdjson(): RowReader {
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
    sampleOf: following => sampleOfJson(rest, following),
  }
}
