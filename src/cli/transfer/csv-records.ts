import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { counted } from '../terminal/terminal.ts'
import { type CsvParser, type CsvRow, createCsvParser } from './csv-rows.ts'
import { decodeUtf8, type TextSource, wrongEncoding } from './decode-text.ts'
import { MAX_ROW_BYTES, TOO_LONG } from './format.ts'

export interface CsvListener {
  /** Called before the first record with the first line, trimmed. Columns without a heading have an empty one. */
  readonly onHeadings?: (headings: readonly string[]) => void
  /** Called with the number of each column without a heading, from 1, before the first record that has a value there. */
  readonly onUnnamed?: (column: number) => void
}

export interface CsvOptions extends TextSource, CsvListener {
  /** One UTF-16 unit. If left out, it is recognised by the first line. */
  readonly delimiter?: string | undefined
}

/**
 * The records of CSV by RFC 4180, in chunks, with all columns that have a heading; as spreadsheets save it: after a line such as
 * `sep=;`, with columns without a heading, which are left, and with empty cells too many or too few. An empty cell counts as
 * missing, and a row of empty ones is skipped.
 *
 * Throws `OperatorError` if quotes do not match or a byte is not UTF-8, after it has yielded the rows before that place.
 * Where the rows after it begin is unknown.
 */
export async function* csvRecords(
  chunks: AsyncIterable<Buffer>,
  { file, encoding, delimiter, onHeadings, onUnnamed }: CsvOptions,
): AsyncGenerator<readonly ImportRecord[]> {
  let parser: CsvParser | undefined
  /** The text that was read before the delimiter was known. */
  let start = ''
  let headings: readonly string[] | undefined
  /** Stands before the raw text of the first record, so that a resumed import also recognises the columns. */
  let columnsRaw = ''
  const unnamed = new Set<number>()

  function noteUnnamed(column: number): void {
    if (unnamed.has(column)) return
    unnamed.add(column)
    onUnnamed?.(column)
  }

  function parse(text: string, isWhole: boolean): readonly CsvRow[] {
    if (parser !== undefined) return parser.push(text)
    start += text
    const [line = '', next] = start.replace(/^[\r\n]+/, '').split(/[\r\n]/, 2)
    if (next === undefined && !isWhole && line.length <= MAX_ROW_BYTES) return []
    const [named, separator] = SEPARATOR_LINE.exec(line) ?? ['']
    parser = createCsvParser(delimiter ?? separator ?? recogniseDelimiter(line))
    return parser.push(start.replace(named, ''))
  }

  function* recordsOf(rows: readonly CsvRow[]): Generator<ImportRecord> {
    for (const row of rows) {
      const { fields } = row
      if (fields?.every(isBlank)) continue
      if (headings === undefined) {
        if (fields === undefined) throw new OperatorError([`the first line ${TOO_LONG.problem}`])
        headings = fields.map(field => field.trim())
        columnsRaw = `${JSON.stringify(headings.map(heading => heading.toLowerCase()))}\n`
        onHeadings?.(headings)
        continue
      }
      const record = recordOf(row, headings, noteUnnamed)
      yield columnsRaw === '' ? record : { ...record, raw: columnsRaw + record.raw }
      columnsRaw = ''
    }
  }

  for await (const { text, isWrong } of decodeUtf8(chunks)) {
    yield [...recordsOf(parse(text, false))]
    throwFaultOf(parser)
    if (isWrong)
      throw wrongEncoding({ file, encoding }, parser?.line() ?? start.split(/\r\n?|\n/).length)
  }
  yield [...recordsOf([...parse('', true), ...(parser?.end() ?? [])])]
  throwFaultOf(parser)
  if (headings !== undefined) return
  const needed = 'its first line must name the columns, such as name,email'
  throw new OperatorError([`${file} is empty: ${needed}`])
}

function throwFaultOf(parser: CsvParser | undefined): void {
  const fault = parser?.fault()
  if (fault !== undefined) throw new OperatorError([`the file is not CSV: ${fault}`])
}

function isBlank(text: string): boolean {
  return text.trim() === ''
}

/** Calls `noteUnnamed` for each value without a heading. */
function recordOf(
  { line, fields }: CsvRow,
  headings: readonly string[],
  noteUnnamed: (column: number) => void,
): ImportRecord {
  if (fields === undefined) return { line, raw: '', content: TOO_LONG }
  const raw = JSON.stringify(fields)
  const row: Record<string, unknown> = {}
  for (let index = 0; index < fields.length; index++) {
    const text = fields[index] as string
    const heading = headings[index]
    if (text === '') continue
    if (heading === '__proto__') Object.defineProperty(row, heading, { value: text })
    else if (heading) row[heading] = text
    else if (isBlank(text)) continue
    else if (heading === '') noteUnnamed(index + 1)
    else {
      const problem = `has ${counted(fields.length, 'fields')} instead of ${headings.length}`
      return { line, raw, content: { problem } }
    }
  }
  return { line, raw, content: { row } }
}

/** The first line with which Excel shows the delimiter to itself. */
const SEPARATOR_LINE = /^"?sep=([^"])"?[\s,;]*$/i

/** The delimiters that are recognised, the most common first. */
const DELIMITERS = [',', ';', '\t']

/** The delimiter with which a first line has the columns of users, otherwise the one that splits it into the most fields. */
function recogniseDelimiter(line: string): string {
  const fieldsBy = (delimiter: string) => line.replaceAll('"', '').split(delimiter)
  const [most] = DELIMITERS.toSorted((a, b) => fieldsBy(b).length - fieldsBy(a).length)
  const isHeader = (delimiter: string) => {
    const names = fieldsBy(delimiter).map(field => field.trim().toLowerCase())
    return names.includes('name') && names.includes('email')
  }
  return DELIMITERS.find(isHeader) ?? (most as string)
}
