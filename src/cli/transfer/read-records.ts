import { isObject } from '../../platform/json.ts'
import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import {
  ColumnsError,
  chooseColumns,
  nullProblem,
  requireFields,
  requireNoNulls,
  spellAs,
} from './choose-columns.ts'
import {
  type ColumnOptions,
  columnOptionsText,
  fieldValue,
  listed,
  nameFromEmail,
  quoted,
} from './column-options.ts'
import type { InputFormat } from './format.ts'
import { fieldLike, partOfName } from './look-alikes.ts'
import { type OpenText, peek } from './open-text.ts'
import { openCsv } from './read-csv.ts'
import { openJson } from './read-json.ts'
import type { RowReader } from './row-reader.ts'
import { eachColumn, valueAt } from './row-values.ts'
import { explainWrongByte } from './text-encodings.ts'

export interface RecordsOptions {
  readonly format: InputFormat
  readonly columns: ColumnOptions
  /** Called with a line about the columns before the first record, and with lines about others. */
  readonly say: (line: string) => void
}

/** How many rows the columns of a file are known by. */
const FIRST_ROWS = 1000

/**
 * Reads a text as records of users, in chunks and to be read once, by the columns of the first rows and the options. `seed` is
 * what decides how rows are read, besides their texts. Throws `ColumnsError` if columns do not fit the options, also at a later
 * row.
 */
export async function readRecords(
  { file, texts }: Pick<OpenText, 'file' | 'texts'>,
  { format, columns, say }: RecordsOptions,
) {
  const { first: start = '', all } = await peek(texts)
  const openReader = format.name === 'csv' ? openCsv : openJson
  const reader = openReader(start, { ...format, file, say, taken: columns.taken })
  const chunks = readChunks(all, reader)
  let sample: readonly ImportRecord[] = []
  let isEnd = false
  let failure: unknown
  while (sample.length < FIRST_ROWS && !isEnd && failure === undefined) {
    try {
      const { value: chunk = [], done = false } = await chunks.next()
      sample = [...sample, ...chunk]
      isEnd = done
    } catch (error) {
      // The rows before it count.
      if (sample.length === 0) throw error
      failure = error
    }
  }
  const plan = planColumns(sample, { reader, columns })
  if (isEnd) plan.requireTaken()

  async function* records(): AsyncGenerator<readonly ImportRecord[]> {
    if (plan.hasColumns) say(plan.describe())
    try {
      yield sample.map(plan.recordOf)
      if (failure !== undefined) throw failure
      for await (const chunk of chunks) yield chunk.map(plan.recordOf)
      plan.requireTaken()
    } finally {
      const left = plan.leftLater()
      if (left.length > 0) say(`later rows have other columns, which were left: ${listed(left)}`)
    }
  }

  return { records: records(), seed: plan.seed }
}

async function* readChunks(
  texts: AsyncIterable<string>,
  reader: RowReader,
): AsyncGenerator<readonly ImportRecord[], undefined> {
  try {
    for await (const text of texts) yield reader.push(text)
  } catch (error) {
    throw explainWrongByte(error, reader)
  }
  yield* reader.end()
  return undefined
}

/** Keys of JSON may be data. More columns than this are checked, but not remembered. */
const MAX_KNOWN = 1000

interface PlanOptions extends Pick<RecordsOptions, 'columns'> {
  readonly reader: RowReader
}

/** Decides by the first rows how each row is read. Throws `ColumnsError`. */
function planColumns(sample: readonly ImportRecord[], { reader, columns: given }: PlanOptions) {
  const header = reader.header?.()
  const headings = header?.headings ?? []
  const options = header === undefined ? given : spellAs(headings, given)
  const isUndecided = header && given.null === undefined && given.escape === undefined
  const known = new Set(headings.filter(heading => heading !== ''))
  const flags = new Set<string>()
  /** Columns of `--column` that no row has had so far. */
  const missing = new Set(options.taken.map(({ column }) => column))
  for (const column of known) missing.delete(column)
  /** Columns of the current row that were not known. */
  let found: string[] = []
  /** Columns that only later rows have. */
  const later: string[] = []

  const rows = sample.map(rowIn).filter(row => row !== undefined)
  for (const row of rows) look(row)
  if (!options.taken.some(({ field }) => field === 'email')) reader.requireUsers?.([...known])
  const facts = { options, isCsv: header !== undefined, flags, missing }
  let choice = chooseColumns([...known], facts)
  if (header !== undefined) requireFields(header, choice)
  if (isUndecided) requireNoNulls(header, choice, rows)

  function look(row: Row): void {
    found = []
    eachColumn(row, note)
    for (const column of missing) if (valueAt(row, column) !== undefined) missing.delete(column)
  }

  function note(column: string, value: unknown): void {
    if (known.has(column)) return
    if (known.size < MAX_KNOWN || IMPORT_COLUMNS.includes(column)) known.add(column)
    if (typeof value === 'boolean') flags.add(column)
    found.push(column)
  }

  function addFound(line: number): void {
    if (later.length < MAX_KNOWN) later.push(...found)
    if (!found.some(mayBeField)) return
    try {
      choice = chooseColumns([...new Set([...known, ...found])], facts)
    } catch (error) {
      throw new ColumnsError(`line ${line}: ${(error as Error).message}`)
    }
  }

  return {
    /** What decides how rows are read, besides their texts. */
    seed: columnOptionsText(given) + JSON.stringify(headings.map(heading => heading.toLowerCase())),

    hasColumns: known.size > 0,

    /** All columns, in one line. */
    describe: (): string => {
      const read = Array.from(choice.reads, ([field, columns]) =>
        columns
          .filter(column => !missing.has(column))
          .map(column => quoted(column) + (column === field ? '' : ` as ${field}`)),
      )
      return [
        `columns: reads ${read.flat().join(', ') || 'nothing'}`,
        `leaves ${listed(choice.left)}`,
        ...choice.lacking.map(
          field => `none is read as ${field}: --column "COLUMN=${field}" takes one`,
        ),
        ...(missing.size > 0 ? [`no row so far has ${listed([...missing])}`] : []),
      ].join('; ')
    },

    recordOf: (record: ImportRecord): ImportRecord => {
      const { line, raw } = record
      const row = rowIn(record)
      if (row === undefined) return record
      // All headings are known.
      if (header === undefined) look(row)
      if (found.length > 0) addFound(line)
      const user: Record<string, unknown> = {}
      for (const [field, columns] of choice.reads) {
        const value = fieldValue(columns, column => valueAt(row, column))
        const problem = isUndecided && nullProblem(field, value)
        if (problem) return { line, raw, content: { problem } }
        user[field] = value
      }
      if (options.nameFrom !== undefined) nameFromEmail(user)
      return { line, raw, content: { row: user } }
    },

    /** Throws `ColumnsError` if no row has had a column of `--column`. */
    requireTaken: (): void => {
      if (missing.size === 0) return
      const names = [...missing].map(quoted).join(' and ')
      throw new ColumnsError(
        `no row has ${names}, which --column takes; rows have ${listed([...known])}`,
      )
    },

    leftLater: (): readonly string[] => later.filter(column => !choice.reads.has(column)),
  }
}

type Row = Readonly<Record<string, unknown>>

/** A record that is no object has no columns, and is rejected for it. */
function rowIn({ content }: ImportRecord): Row | undefined {
  return 'row' in content && isObject(content.row) ? content.row : undefined
}

/** Whether a column is one of a field, or a name in its path is like one. */
function mayBeField(column: string): boolean {
  const isLike = (name: string) => fieldLike(name) !== undefined || partOfName(name) !== undefined
  return IMPORT_COLUMNS.includes(column) || column.split('.').some(isLike)
}
