import { OperatorError } from '../../errors.ts'
import { type CsvRow, createCsvParser } from './csv-rows.ts'
import { MAX_ROW_CHARS, TOO_LONG } from './format.ts'
import { fieldLike } from './look-alikes.ts'
import type { OpenText } from './read-text.ts'
import { WrongByte, wrongEncoding } from './wrong-encoding.ts'

export interface CsvOptions extends Pick<OpenText, 'file' | 'encoding' | 'texts'> {
  /** One UTF-16 unit. If left out, it is recognised by the first line. */
  readonly delimiter: string | undefined
  /** Whether a backslash gives the next character another meaning. */
  readonly hasEscapes: boolean
}

/** CSV whose first line was read. */
export interface OpenCsv {
  /** The first line, trimmed. Columns without a heading have an empty one. */
  readonly headings: readonly string[]
  readonly delimiter: string
  /** The rows after it, in chunks, to be read once. */
  readonly rows: AsyncGenerator<readonly CsvRow[]>
}

/**
 * Reads the first line of CSV by RFC 4180; as spreadsheets save it, after a line such as `sep=;`. Rows of nothing are left out.
 *
 * Throws `OperatorError` if quotes do not match or a byte has no meaning, after the rows before that place. Where the rows
 * after it begin is unknown.
 */
export async function openCsv({ texts, ...options }: CsvOptions): Promise<OpenCsv> {
  const { start, delimiter, failure } = await readFirstLine(texts, options)
  const hasQuotes = !options.hasEscapes || delimiter !== '\t' || /^\s*"/.test(start)
  const parser = createCsvParser({ delimiter, hasEscapes: options.hasEscapes, hasQuotes })
  let headings: readonly string[] = []

  async function* rows(): AsyncGenerator<readonly CsvRow[]> {
    try {
      yield parse(start)
      if (failure !== undefined) throw failure
      for await (const text of texts) yield parse(text)
    } catch (error) {
      if (!(error instanceof WrongByte)) throw error
      const line = parser.line()
      throw wrongEncoding({ ...options, line, sample: sampleOf(parser, headings, error.rest) })
    }
    yield parser.end().filter(isRow)
    throwFault()
  }

  function parse(text: string): readonly CsvRow[] {
    throwFault()
    return parser.push(text).filter(isRow)
  }

  function throwFault(): void {
    const fault = parser.fault()
    if (fault !== undefined) throw new OperatorError([`the file is not CSV: ${fault}`])
  }

  const all = rows()
  for (;;) {
    const { value, done }: IteratorResult<readonly CsvRow[]> = await all.next()
    const [first, ...others] = value ?? []
    if (first !== undefined) {
      if (first.fields === undefined)
        throw new OperatorError([`the first line ${TOO_LONG.problem}`])
      headings = first.fields.map((field: string) => field.trim())
      return { headings, delimiter, rows: withStart(others, all) }
    }
    if (done === true) {
      const needed = 'its first line must name the columns, such as name,email'
      throw new OperatorError([`${options.file} is empty: ${needed}`])
    }
  }
}

async function* withStart<T>(first: T, others: AsyncGenerator<T>): AsyncGenerator<T> {
  yield first
  yield* others
}

function isRow({ fields }: CsvRow): boolean {
  return fields?.every(text => text.trim() === '') !== true
}

/** The first line with which Excel shows the delimiter to itself. */
const SEPARATOR_LINE = /^"?sep=([^"])"?[\s,;]*$/i

/** The text with the first line whole and without `sep=`, its delimiter, and what ended the text. */
async function readFirstLine(
  texts: AsyncGenerator<string>,
  options: Pick<CsvOptions, 'delimiter'>,
) {
  let start = ''
  let failure: unknown
  let line = ''
  for (let next: string | undefined; next === undefined && line.length <= MAX_ROW_CHARS; ) {
    const { value, done } = await texts.next().catch(error => {
      failure = error
      return { value: undefined, done: true }
    })
    start += value ?? ''
    ;[line = '', next] = start.replace(/^[\r\n]+/, '').split(/[\r\n]/, 2)
    if (done) break
  }
  const [named, separator] = SEPARATOR_LINE.exec(line) ?? ['']
  const delimiter = options.delimiter ?? separator ?? recogniseDelimiter(line)
  return { start: start.replace(named, ''), delimiter, failure }
}

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

/** Of the row with a wrong byte: its name, otherwise its first cell with a byte beyond ASCII that may be no password. */
function sampleOf(
  parser: ReturnType<typeof createCsvParser>,
  headings: readonly string[],
  rest: Buffer,
): string | undefined {
  const [line = ''] = rest.toString('latin1').split(/[\r\n]/, 1)
  const [row] = parser.push(`${line}\n`)
  const cells = (row?.fields ?? []).map((text, index) => ({
    text,
    field: fieldLike(headings[index] ?? ''),
  }))
  const shown = cells.filter(
    ({ text, field }) => /[^\0-\x7f]/.test(text) && !field?.startsWith('password'),
  )
  const named = shown.find(({ field }) => field === 'name') ?? shown[0]
  return named?.text
}
