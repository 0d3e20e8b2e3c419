import { OperatorError } from '../../errors.ts'
import { SQL_HINT } from './format.ts'
import { openDocument } from './json-document.ts'
import { openNdjson } from './ndjson.ts'
import { MAX_ROW_CHARS, type ReaderOptions, type RowFormat } from './row-reader.ts'

/** Shows whether each line of JSON is a row: its first line and more, or so much of it. */
const MAX_START_CHARS = 64 * 1024

/** NDJSON, or a document of JSON. */
export const JSON_ROWS: RowFormat = {
  isEnough: text => {
    const start = text.trimStart()
    const end = start.indexOf('\n')
    return start.length >= MAX_START_CHARS || (end >= 0 && start.slice(end).trim() !== '')
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
