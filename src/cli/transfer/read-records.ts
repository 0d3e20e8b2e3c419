import { OperatorError } from '../../errors.ts'
import type { ImportRecord } from '../../users/transfer/import-rows.ts'
import { UsageError } from '../terminal/terminal.ts'
import { type ColumnOptions, columnOptionsText } from './column-options.ts'
import { planCsv } from './csv-columns.ts'
import {
  type Format,
  formatOf,
  IMPORT_FORMATS,
  type InputFlags,
  MAX_ROW_CHARS,
  SQL_HINT,
} from './format.ts'
import { planJson } from './json-columns.ts'
import { openCsv } from './read-csv.ts'
import { readFirst } from './read-first.ts'
import { openJson, readNdjson } from './read-json.ts'
import { type OpenText, openText, type TextOptions } from './read-text.ts'
import { encodingOf } from './wrong-encoding.ts'

/** What an import reads, after the options about it. Throws `UsageError` if they are wrong. */
export function inputFormatOf(file: string, flags: InputFlags) {
  const { at, encoding } = flags
  const { name, ...format } = formatOf(file, flags, IMPORT_FORMATS)
  if (at !== undefined && name !== undefined && name !== 'json')
    throw new UsageError(`--at is for JSON, but the format is ${name.toUpperCase()}`)
  return {
    ...format,
    name: at === undefined ? name : 'json',
    at,
    encoding: encoding === undefined ? undefined : encodingOf(encoding),
  }
}

export interface RecordsOptions extends Pick<TextOptions, 'terminal' | 'signal'> {
  readonly format: ReturnType<typeof inputFormatOf>
  readonly columns: ColumnOptions
  /** Called with a line about the columns that are read and left, and later about others. */
  readonly say: (line: string) => void
}

/** How many rows the columns of JSON are known by. Of a stream, which may pause, it is what comes first. */
const FIRST_ROWS = 1000

/**
 * Opens a file, or standard input, for an import. Its records are to be read once. `seed` is what decides how they are read, besides
 * their texts. Throws `OperatorError` if it cannot be read.
 */
export async function openRecords(path: string, options: RecordsOptions) {
  const { format, columns } = options
  const text = openText(path, { ...options, ...format })
  if (format.name !== 'csv' && (columns.null ?? columns.escape) !== undefined)
    throw new UsageError('--null and --escape are for CSV')
  const open = format.name === 'csv' ? openCsvRecords : openJsonRecords
  const { records, seed } = await open(text, options)
  return { records, seed: columnOptionsText(columns) + seed, share: text.share }
}

async function openCsvRecords(text: OpenText, { format, columns, say }: RecordsOptions) {
  const { delimiter } = format
  const csv = await openCsv({ ...text, delimiter, hasEscapes: columns.escape !== undefined })
  const wanted = text.isStream ? 1 : FIRST_ROWS
  return planRecords(csv.rows, { wanted, say, planFor: sample => planCsv(csv, sample, columns) })
}

async function openJsonRecords(text: OpenText, { format, columns, say }: RecordsOptions) {
  const { at, name } = format
  const { first, all } = await readFirst(text.texts, showRows)
  const start = first.join('').slice(0, MAX_ROW_CHARS).trimStart()
  requireJson(start, name, text.file)
  const { records, elsewhere } =
    at === undefined && hasRowPerLine(start, name)
      ? { records: readNdjson(all()), elsewhere: [] }
      : await openJson(all(), { ...text, at, format: name })
  const wanted = text.isStream && columns.taken.length === 0 ? 1 : FIRST_ROWS
  const planFor = (sample: readonly ImportRecord[]) => planJson(sample, columns, elsewhere)
  return planRecords(records, { wanted, say, planFor })
}

/** How rows become records. */
interface Plan<R> {
  /** Decides how records are read, besides their texts and the options. */
  readonly seed: string
  recordOf(row: R): ImportRecord
  /** Lines about the columns that are known so far, once each. */
  news(): readonly string[]
  /** The line about columns that were only found later. */
  lastNews?(): string | undefined
  /** Throws `ColumnsError` if no row had a column of `--column`. */
  requireAll?(): void
}

async function planRecords<R>(
  rows: AsyncGenerator<readonly R[]>,
  {
    wanted,
    planFor,
    say,
  }: Pick<RecordsOptions, 'say'> & {
    /** How many rows the plan is made by, if there are as many. */
    readonly wanted: number
    readonly planFor: (sample: readonly R[]) => Plan<R>
  },
) {
  const isEnough = (chunks: readonly (readonly R[])[]) =>
    chunks.reduce((count, chunk) => count + chunk.length, 0) >= wanted
  const { first, all, isEnd } = await readFirst(rows, isEnough)
  const plan = planFor(first.flat())
  if (isEnd) plan.requireAll?.()
  async function* records() {
    try {
      for await (const chunk of all()) {
        const taken = chunk.map(plan.recordOf)
        for (const line of plan.news()) say(line)
        yield taken
      }
      plan.requireAll?.()
    } finally {
      const last = plan.lastNews?.()
      if (last !== undefined) say(last)
    }
  }
  return { records: records(), seed: plan.seed }
}

/** Shows whether each line of JSON is a row: its first line and more, or so much of it. */
const MAX_START_CHARS = 64 * 1024

function showRows(first: readonly string[]): boolean {
  const start = first.join('').trimStart()
  const end = start.indexOf('\n')
  return start.length >= MAX_START_CHARS || (end >= 0 && start.slice(end).trim() !== '')
}

/** Throws `OperatorError` for text that is surely no JSON. Each line of NDJSON is rejected for itself. */
function requireJson(text: string, format: Format | undefined, file: string): void {
  if (format === 'ndjson' || /^([[{]|$)/.test(text)) return
  const isSql = /^(--|\/\*|(COPY|INSERT|CREATE|SET)\s)/i.test(text)
  const hint = isSql ? SQL_HINT : 'is not JSON; for a CSV file, add --format csv'
  throw new OperatorError([`${file} ${hint}`])
}

/** Whether each line is a row. Otherwise there is one document, or objects of several lines. */
function hasRowPerLine(start: string, format: Format | undefined): boolean {
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
