import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { recogniseDelimiter } from './csv-delimiter.ts'
import { checkHeader } from './csv-header.ts'
import { type CsvParser, type CsvRow, createCsvParser } from './csv-rows.ts'
import { MAX_ROW_BYTES, TOO_LONG } from './row-limit.ts'
import { createUtf8Reader } from './utf8-reader.ts'

export interface CsvOptions {
  /** The name of the file in messages. */
  readonly file: string
  /** One UTF-16 unit. If left out, it is detected from the first line. */
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
  options: CsvOptions,
): AsyncGenerator<readonly ImportRecord[]> {
  let columns: readonly string[] | undefined
  let isHeaderHashed = false
  for await (const rows of csvRows(chunks, options)) {
    const [header] = rows
    const isFirst = columns === undefined && header !== undefined
    if (isFirst) columns = checkHeader(fieldsOfHeader(header))
    const known = columns ?? []
    const records = rows.slice(isFirst ? 1 : 0).map(row => recordOf(row, known))
    const [first] = records
    if (first !== undefined && !isHeaderHashed) {
      isHeaderHashed = true
      // Part of the hash by which a resumed import recognises the file.
      records[0] = { ...first, raw: `${JSON.stringify(known)}\n${first.raw}` }
    }
    yield records
  }
  if (columns === undefined) {
    const needed = 'its first line must name the columns, such as name,email'
    throw new OperatorError([`${options.file} is empty: ${needed}`])
  }
}

async function* csvRows(
  chunks: AsyncIterable<Buffer>,
  { file, delimiter }: CsvOptions,
): AsyncGenerator<readonly CsvRow[]> {
  const reader = createUtf8Reader()
  let parser = delimiter === undefined ? undefined : createCsvParser(delimiter)
  /** The text read while the delimiter is unknown. */
  let start = ''

  function parse(text: string, isWhole: boolean): readonly CsvRow[] {
    if (parser !== undefined) return parser.push(text)
    start += text
    const found = recogniseDelimiter(start, { isWhole: isWhole || start.length > MAX_ROW_BYTES })
    if (found === undefined) return []
    parser = createCsvParser(found)
    return parser.push(start)
  }

  function line(): number {
    if (parser !== undefined) return parser.line()
    const headerParser = createCsvParser(',')
    headerParser.push(start)
    return headerParser.line()
  }

  for await (const chunk of chunks) {
    const { text, isWrong } = reader.push(chunk)
    yield parse(text, false)
    throwFaultOf(parser)
    if (isWrong) throw notUtf8(file, line())
  }
  // Before the last row, because the broken character is part of it.
  if (reader.endsInside()) throw notUtf8(file, line())
  yield [...parse('', true), ...(parser?.end() ?? [])]
  throwFaultOf(parser)
}

/** The encoding cannot be recognised; that of spreadsheets is the most likely. */
function notUtf8(file: string, line: number): OperatorError {
  const convert = 'if a spreadsheet saved it as Latin-1, iconv -f WINDOWS-1252 -t UTF-8 converts it'
  return new OperatorError([`${file} is not UTF-8 at line ${line}; ${convert}`])
}

function throwFaultOf(parser: CsvParser | undefined): void {
  const fault = parser?.fault()
  if (fault !== undefined) throw new OperatorError([`the file is not CSV: ${fault}`])
}

function fieldsOfHeader({ fields }: CsvRow): readonly string[] {
  if (fields === undefined) throw new OperatorError([`the first line ${TOO_LONG.problem}`])
  return fields
}

function recordOf({ line, fields }: CsvRow, columns: readonly string[]): ImportRecord {
  if (fields === undefined) return { line, raw: '', content: TOO_LONG }
  const raw = JSON.stringify(fields)
  if (fields.length !== columns.length) {
    return {
      line,
      raw,
      content: { problem: `has ${fields.length} fields instead of ${columns.length}` },
    }
  }
  const row: Record<string, unknown> = Object.create(null)
  for (const [index, name] of columns.entries()) {
    const text = fields[index]
    if (text !== '') row[name] = name === 'id' ? numberOf(text) : text
  }
  return { line, raw, content: { row: { ...row } } }
}

/** A number if its usual form is exactly this text, otherwise the text itself. */
function numberOf(text = ''): number | string {
  const value = Number(text)
  return String(value) === text ? value : text
}
