import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { counted } from '../terminal/terminal.ts'
import { ColumnsError } from './choose-columns.ts'
import { type CsvRow, createCsvParser } from './csv-rows.ts'
import { fieldLike, mayBePassword } from './look-alikes.ts'
import { type OpenReader, TOO_LONG } from './row-reader.ts'

/** The first line with text. */
function firstLineOf(start: string): string {
  return /[^\r\n]+/.exec(start)?.[0] ?? ''
}

/** What is not in quotes, where a cell may have delimiters and line ends. */
function unquoted(start: string): string {
  const parts = start.split('"')
  return parts.filter((_, at) => at % 2 === 0).join('')
}

/** The first line with which Excel shows the delimiter to itself. */
const SEPARATOR_LINE = /^("?)sep=([^"])\1[\s,;]*$/i

/** CSV by RFC 4180, and as spreadsheets save it. Rows of nothing are left out. An empty cell counts as missing. */
export const openCsv: OpenReader = (start, options) => {
  const { file, hasEscapes } = options
  const [separatorLine = '', , separator] = SEPARATOR_LINE.exec(firstLineOf(start)) ?? []
  const delimiter = options.delimiter ?? separator ?? recogniseDelimiter(start)
  const startsQuoted = /^\s*"/.test(start.replace(separatorLine, ''))
  const hasQuotes = !hasEscapes || delimiter !== '\t' || startsQuoted
  const parser = createCsvParser({ delimiter, hasEscapes, hasQuotes })
  let isSkipped = separatorLine === ''
  const nulls = new Set(['', ...(options.nulls ?? [])])
  let headings: readonly string[] = []
  /** The last of those with one heading counts, as spreadsheets have it. */
  const places = new Map<string, number>()
  /** With all columns, of which `__proto__` may be one. */
  let emptyRow: Record<string, unknown> = {}
  const unnamed = new Set<number>()

  function recordsOf(rows: readonly CsvRow[]): readonly ImportRecord[] {
    const full = rows.filter(({ fields }) => fields?.every(text => text.trim() === '') !== true)
    const fault = parser.fault()
    if (full.length === 0 && fault !== undefined) {
      const problem = `the file is not CSV: ${fault}`
      if (delimiter !== '\t' || hasEscapes) throw new OperatorError([problem])
      throw new ColumnsError(`${problem}; if it is of a database, add --escape backslash`)
    }
    if (!isSkipped) isSkipped = full.shift() !== undefined
    if (headings.length === 0) takeHeadings(full.shift())
    return full.map(recordOf)
  }

  function takeHeadings(row: CsvRow | undefined): void {
    if (row === undefined) return
    if (row.fields === undefined) throw new OperatorError([`the first line ${TOO_LONG.problem}`])
    headings = row.fields.map(field => field.trim())
    for (const [place, heading] of headings.entries()) {
      if (heading === '') unnamed.add(place)
      else places.set(heading, place)
    }
    emptyRow = Object.fromEntries(Array.from(places.keys(), heading => [heading, undefined]))
  }

  function recordOf({ line, fields }: CsvRow): ImportRecord {
    if (fields === undefined) return { line, raw: '', content: TOO_LONG }
    const raw = JSON.stringify(fields)
    const width = headings.length
    if (fields.length > width && fields.slice(width).some(text => text.trim() !== '')) {
      const problem = `has ${counted(fields.length, 'fields')} instead of ${width}`
      return { line, raw, content: { problem } }
    }
    for (const place of unnamed) {
      if (!fields[place]?.trim()) continue
      options.say(`column ${place + 1} has no heading and is left`)
      unnamed.delete(place)
    }
    const row = { ...emptyRow }
    for (const [heading, place] of places) {
      const cell = fields[place]
      row[heading] = cell === undefined || nulls.has(cell) ? undefined : cell
    }
    return { line, raw, content: { row } }
  }

  return {
    push: text => recordsOf(parser.push(text)),
    end: () => {
      const records = recordsOf(parser.end())
      if (headings.length > 0) return [records]
      const needed = 'its first line must name the columns, such as name,email'
      throw new OperatorError([`${file} is empty: ${needed}`])
    },
    line: parser.line,
    sampleOf: rest => {
      const [end = ''] = rest.split(/[\r\n]/, 1)
      const cells = parser.push(`${end}\n`)[0]?.fields ?? []
      // The first line may be of data, and a cell beyond the headings shifts the others.
      const isFirst = headings.length === 0
      if (isFirst ? cells.some(text => text.includes('@')) : cells.length > headings.length)
        return undefined
      const headingAt = (at: number) => headings[at] ?? ''
      const isShown = (text: string, at: number) =>
        /[^\0-\x7f]/.test(text) && !mayBePassword(headingAt(at), options.taken)
      const isName = (text: string, at: number) =>
        fieldLike(headingAt(at)) === 'name' && isShown(text, at)
      return cells.find(isName) ?? cells.find(isShown)
    },
    header: () => ({ headings, delimiter }),
  }
}

/** The delimiters that are recognised, the most common first. */
const DELIMITERS = [',', ';', '\t']

/** The delimiter with which a first line has the columns of users, otherwise the one that splits it into the most fields. */
function recogniseDelimiter(start: string): string {
  const line = firstLineOf(start)
  const plain = firstLineOf(unquoted(start))
  const fieldsBy = (delimiter: string) => plain.split(delimiter).length
  const [most] = DELIMITERS.toSorted((a, b) => fieldsBy(b) - fieldsBy(a))
  const isHeader = (delimiter: string) => {
    const fields = line.replaceAll('"', '').split(delimiter)
    const names = fields.map(field => field.trim().toLowerCase())
    return names.includes('name') && names.includes('email')
  }
  return DELIMITERS.find(isHeader) ?? (most as string)
}
