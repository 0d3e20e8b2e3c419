import { OperatorError } from '../../errors.ts'
import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import { counted } from '../terminal/terminal.ts'
import { type CsvParser, type CsvRow, createCsvParser } from './csv-rows.ts'
import { decodeUtf8, type TextSource, wrongEncoding } from './decode-text.ts'
import { MAX_ROW_BYTES, TOO_LONG } from './format.ts'

export interface CsvOptions extends TextSource {
  /** One UTF-16 unit. If left out, it is recognised by the first line. */
  readonly delimiter?: string | undefined
}

/**
 * The records of CSV by RFC 4180, in chunks. The first line names the columns. An empty field counts as missing, and
 * unknown columns are ignored.
 *
 * Throws `OperatorError` if quotes do not match or a byte is not UTF-8, after it has yielded the rows before that place.
 * Where the rows after it begin is unknown.
 */
export async function* csvRecords(
  chunks: AsyncIterable<Buffer>,
  { file, encoding, delimiter }: CsvOptions,
): AsyncGenerator<readonly ImportRecord[]> {
  let parser = delimiter === undefined ? undefined : createCsvParser(delimiter)
  /** The text that was read before the delimiter was known. */
  let start = ''
  let columns: readonly string[] | undefined
  /** Stands before the raw text of the first record, so that a resumed import also recognises the columns. */
  let columnsRaw = ''

  function parse(text: string, isWhole: boolean): readonly CsvRow[] {
    if (parser !== undefined) return parser.push(text)
    start += text
    const [line = '', next] = start.replace(/^[\r\n]+/, '').split(/[\r\n]/, 2)
    if (next === undefined && !isWhole && line.length <= MAX_ROW_BYTES) return []
    parser = createCsvParser(recogniseDelimiter(line))
    return parser.push(start)
  }

  function* recordsOf(rows: readonly CsvRow[]): Generator<ImportRecord> {
    for (const row of rows) {
      if (columns === undefined) {
        columns = checkHeader(row)
        columnsRaw = `${JSON.stringify(columns)}\n`
        continue
      }
      const record = recordOf(row, columns)
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
  if (columns !== undefined) return
  const needed = 'its first line must name the columns, such as name,email'
  throw new OperatorError([`${file} is empty: ${needed}`])
}

function throwFaultOf(parser: CsvParser | undefined): void {
  const fault = parser?.fault()
  if (fault !== undefined) throw new OperatorError([`the file is not CSV: ${fault}`])
}

function recordOf({ line, fields }: CsvRow, columns: readonly string[]): ImportRecord {
  if (fields === undefined) return { line, raw: '', content: TOO_LONG }
  const raw = JSON.stringify(fields)
  if (fields.length !== columns.length) {
    const problem = `has ${counted(fields.length, 'fields')} instead of ${columns.length}`
    return { line, raw, content: { problem } }
  }
  const row: Record<string, unknown> = {}
  for (let index = 0; index < fields.length; index++) {
    const name = columns[index] as string
    const text = fields[index]
    if (text === '' || !IMPORT_COLUMNS.includes(name)) continue
    row[name] = name === 'id' ? numberOf(text) : text
  }
  return { line, raw, content: { row } }
}

/** A number if its usual form is exactly this text, otherwise the text itself. */
function numberOf(text = ''): number | string {
  const value = Number(text)
  return String(value) === text ? value : text
}

/** The delimiters that are recognised, the most common first. */
const DELIMITERS = [',', ';', '\t']

/** A file of something else may have thousands of columns. */
const MAX_SHOWN_CHARS = 800

/** The delimiter with which a first line has the columns of users, otherwise the one that splits it into the most fields. */
function recogniseDelimiter(line: string): string {
  const fieldsBy = (delimiter: string) => line.replaceAll('"', '').split(delimiter)
  const isHeader = (delimiter: string) => missingIn(columnsOf(fieldsBy(delimiter))).length === 0
  const [most] = DELIMITERS.toSorted((a, b) => fieldsBy(b).length - fieldsBy(a).length)
  return DELIMITERS.find(isHeader) ?? (most as string)
}

/** The columns that a first line names. Throws `OperatorError` if they are not those of users, or the line is too long. */
function checkHeader({ fields: header }: CsvRow): readonly string[] {
  if (header === undefined) throw new OperatorError([`the first line ${TOO_LONG.problem}`])
  const columns = columnsOf(header)
  const missing = missingIn(columns)
  if (missing.length > 0) throw new OperatorError([problemOf(header, missing)])
  const twice = columns.find((name, index) => columns.indexOf(name) !== index)
  if (twice === undefined) return columns
  throw new OperatorError([`the first line names ${JSON.stringify(twice)} twice`])
}

function columnsOf(header: readonly string[]): readonly string[] {
  return header.map(field => field.trim().toLowerCase())
}

/** No row can be a user without these columns. */
function missingIn(columns: readonly string[]): readonly string[] {
  return ['name', 'email'].filter(name => !columns.includes(name))
}

function problemOf(header: readonly string[], missing: readonly string[]): string {
  // A row of data may hold a password, so it is not shown.
  if (header.some(field => field.includes('@'))) {
    return 'the first line holds an e-mail address, but it must name the columns, such as name,email'
  }
  const names = missing.map(name => JSON.stringify(name)).join(' and ')
  const shown = header
    .map(field => JSON.stringify(field))
    .join(', ')
    .slice(0, MAX_SHOWN_CHARS)
  const found = header.every(field => field === '') ? 'nothing' : shown
  return `the first line does not name ${names}; it names ${found}; known columns are ${IMPORT_COLUMNS.join(', ')}`
}
