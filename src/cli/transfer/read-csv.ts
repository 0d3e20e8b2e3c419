import { OperatorError } from '../../errors.ts'
import { type CsvRow, createCsvParser } from './csv-rows.ts'
import { MAX_ROW_CHARS, TOO_LONG } from './format.ts'
import { fieldLike } from './look-alikes.ts'
import { readFirst } from './read-first.ts'
import type { OpenText } from './read-text.ts'
import { explainWrongByte } from './wrong-encoding.ts'

export interface CsvOptions extends Pick<OpenText, 'file' | 'texts'> {
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

/** The first line with which Excel shows the delimiter to itself. */
const SEPARATOR_LINE = /^"?sep=([^"])"?[\s,;]*$/i

/**
 * Reads the first line of CSV by RFC 4180; as spreadsheets save it, after a line such as `sep=;`. Rows of nothing are left out.
 *
 * Throws `OperatorError` if quotes do not match or a byte has no meaning, after the rows before that place. Where the rows
 * after it begin is unknown.
 */
export async function openCsv({ file, texts, ...options }: CsvOptions): Promise<OpenCsv> {
  const { first, all } = await readFirst(texts, isFirstLineWhole)
  const [line = ''] = firstLineOf(first)
  const [named, separator] = SEPARATOR_LINE.exec(line) ?? ['']
  const delimiter = options.delimiter ?? separator ?? recogniseDelimiter(line)
  const start = first.join('').replace(named, '')
  const hasQuotes = !options.hasEscapes || delimiter !== '\t' || /^\s*"/.test(start)
  const parser = createCsvParser({ delimiter, hasEscapes: options.hasEscapes, hasQuotes })
  let headings: readonly string[] = []

  async function* rows(): AsyncGenerator<readonly CsvRow[]> {
    try {
      for await (const text of all([start])) {
        yield parser.push(text).filter(isRow)
        throwFault()
      }
    } catch (error) {
      throw explainWrongByte(error, parser.line(), rest => sampleOf(parser, headings, rest))
    }
    yield parser.end().filter(isRow)
    throwFault()
  }

  function throwFault(): void {
    const fault = parser.fault()
    if (fault !== undefined) throw new OperatorError([`the file is not CSV: ${fault}`])
  }

  const read = await readFirst(rows(), chunks => chunks.some(chunk => chunk.length > 0))
  const [heading, ...others] = read.first.flat()
  if (heading === undefined) {
    // Throws what ended the reading.
    await read.all([]).next()
    const needed = 'its first line must name the columns, such as name,email'
    throw new OperatorError([`${file} is empty: ${needed}`])
  }
  if (heading.fields === undefined) throw new OperatorError([`the first line ${TOO_LONG.problem}`])
  headings = heading.fields.map(field => field.trim())
  return { headings, delimiter, rows: read.all([others]) }
}

function isRow({ fields }: CsvRow): boolean {
  return fields?.every(text => text.trim() === '') !== true
}

/** The first line with text, and what follows it if its end was read. */
function firstLineOf(texts: readonly string[]): readonly string[] {
  const start = texts.join('').replace(/^[\r\n]+/, '')
  return start.split(/[\r\n]/, 2)
}

function isFirstLineWhole(texts: readonly string[]): boolean {
  const [line = '', next] = firstLineOf(texts)
  return next !== undefined || line.length > MAX_ROW_CHARS
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
  const fields = headings.map(fieldLike)
  const isShown = (text: string, at: number) =>
    /[^\0-\x7f]/.test(text) && !fields[at]?.startsWith('password')
  const cells = row?.fields ?? []
  return cells.find((text, at) => fields[at] === 'name' && isShown(text, at)) ?? cells.find(isShown)
}
