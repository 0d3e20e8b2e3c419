import { TextDecoder } from 'node:util'
import { type CsvError, parse } from 'csv-parse'
import { OperatorError } from '../errors.ts'
import type { ImportRecord } from '../users/import-batches.ts'
import { IMPORT_COLUMNS } from '../users/import-fields.ts'

const MAX_RECORD_CHARS = 1024 ** 2

/** The columns without which no row can be a user. */
const NEEDED_COLUMNS = ['name', 'email']

interface CsvRow {
  readonly line: number
  readonly fields: readonly string[]
}

/**
 * The records of CSV by RFC 4180, whose first names the columns, those of a chunk at a time. An empty field counts as
 * one that is left out; columns that mean nothing here are passed over.
 *
 * Where quotes do not match it ends, with an `OperatorError` after the rows that were still right: nobody can tell
 * which of the rows behind are meant as rows.
 */
export async function* csvRecords(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<readonly ImportRecord[]> {
  let columns: readonly string[] | undefined
  for await (const rows of csvRows(chunks)) {
    const [header] = rows
    const isFirst = columns === undefined && header !== undefined
    if (isFirst) columns = checkHeader(header.fields)
    const known = columns ?? []
    yield rows.slice(isFirst ? 1 : 0).map(row => recordOf(row, known))
  }
  if (columns === undefined) checkHeader([])
}

async function* csvRows(chunks: AsyncIterable<Buffer>): AsyncGenerator<readonly CsvRow[]> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let rows: CsvRow[] = []
  let problem: string | undefined
  // The parser takes CRLF for two lines where it stands in quotes.
  let surplusLines = 0
  const parser = parse({
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: MAX_RECORD_CHARS,
    // Kept here and not handed on, so that what the parser has read of a chunk is known when it has read it.
    on_record: (fields: string[], { lines }) => {
      const text = fields.join()
      const breaks = timesIn(text, '\r') + timesIn(text, '\n')
      rows.push({ line: lines - surplusLines - breaks, fields })
      surplusLines += timesIn(text, '\r\n')
      return null
    },
  })
  parser.on('error', error => {
    const { code, lines } = error as CsvError
    problem = problemOf(code, Number(lines) - surplusLines)
  })
  const written = (text: string) => new Promise(resolve => parser.write(text, resolve))
  const ended = () =>
    new Promise<void>(resolve => {
      parser.on('close', resolve)
      parser.resume().end()
    })

  function* collected(): Generator<readonly CsvRow[]> {
    yield rows
    rows = []
    if (problem !== undefined) throw new OperatorError([`the file is not CSV: ${problem}`])
  }

  for await (const chunk of chunks) {
    const text = decoded(decoder, chunk)
    if (text === undefined) problem = 'it is not UTF-8'
    else await written(text)
    yield* collected()
  }
  if (decoded(decoder) === undefined) problem = 'it is not UTF-8'
  await ended()
  yield* collected()
}

/** `undefined` where it is not UTF-8; without a chunk, what is left over. */
function decoded(decoder: TextDecoder, chunk?: Buffer): string | undefined {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined })
  } catch {
    return undefined
  }
}

function checkHeader(fields: readonly string[]): readonly string[] {
  const columns = fields.map(field => field.trim())
  const problems = NEEDED_COLUMNS.filter(name => !columns.includes(name)).map(
    name =>
      `the first line names no column ${JSON.stringify(name)}; it may name ${IMPORT_COLUMNS.join(', ')}`,
  )
  const twice = columns.find((name, index) => columns.indexOf(name) !== index)
  // Where columns are missing too, it may be a row of somebody's data.
  if (twice !== undefined && problems.length === 0)
    problems.push(`the first line names ${JSON.stringify(twice)} twice`)
  if (problems.length > 0) throw new OperatorError(problems)
  return columns
}

function recordOf({ line, fields }: CsvRow, columns: readonly string[]): ImportRecord {
  const raw = JSON.stringify(fields)
  if (fields.length !== columns.length) {
    return {
      line,
      raw,
      content: { problem: `has ${fields.length} fields and not ${columns.length}` },
    }
  }
  const row: Record<string, unknown> = Object.create(null)
  for (const [index, name] of columns.entries()) {
    const text = fields[index]
    if (text !== '') row[name] = name === 'id' ? numberOf(text) : text
  }
  return { line, raw, content: { row: { ...row } } }
}

/** CSV knows text only. */
function numberOf(text = ''): number | string {
  const value = Number(text)
  return String(value) === text ? value : text
}

function timesIn(text: string, part: string): number {
  return text.split(part).length - 1
}

/** Not in the words of the parser, which quote what stands there, and that may be a password. */
function problemOf(code: CsvError['code'], line: number): string {
  return code === 'CSV_MAX_RECORD_SIZE'
    ? `a row is longer than ${MAX_RECORD_CHARS} bytes, or a quote is not closed, before or at line ${line}`
    : `quotes do not match at line ${line}`
}
