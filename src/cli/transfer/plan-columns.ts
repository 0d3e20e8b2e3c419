import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import { type Choice, ColumnsError, chooseColumns } from './choose-columns.ts'
import {
  type ColumnOptions,
  columnOptionsText,
  fieldValue,
  listed,
  nameFromEmail,
  quoted,
} from './column-options.ts'
import { fieldLike, partOfName } from './look-alikes.ts'
import { lengthOf, readFirst } from './read-first.ts'
import type { readRows } from './read-rows.ts'

/** The columns of the rows of a file. */
export interface Table {
  /** With columns as the file spells them. */
  readonly options: ColumnOptions
  /** The case of headings does not matter. Columns of JSON are paths, with dots. */
  readonly isCsv: boolean
  /** The columns that are known so far. */
  readonly known: ReadonlySet<string>
  /** Columns of JSON that are true or false. They are no fields, whatever their names are like. */
  readonly flags: ReadonlySet<string>
  /** What decides how rows are read, besides their texts and the options. */
  readonly seed: string
  /** Takes note of the columns of a row. Returns those that were not known, or `undefined` for a row that is not one of a table. */
  look(row: unknown): readonly string[] | undefined
  valueAt(row: unknown, column: string): unknown
  /** Throws `ColumnsError` if no row can be a user. */
  check?(choice: Choice): void
  /** Why a row with this value of a field cannot be taken. */
  problemIn?(field: string, value: unknown): string | undefined
}

export interface PlanOptions {
  readonly columns: ColumnOptions
  /** How many rows the columns are known by, if there are as many. */
  readonly wantedRows: number
  /** Called with a line about the columns before the first record, and later about others. */
  readonly say: (line: string) => void
}

/** Columns that only later rows have are remembered up to this number. */
const MAX_LATER = 1000

/**
 * Reads rows as records of users, by the columns of the first rows and the options. `seed` is what decides how rows are read,
 * besides their texts. Throws `ColumnsError` if columns do not fit the options, also at a later row.
 */
export async function planColumns(
  { rows, tableOf }: Awaited<ReturnType<typeof readRows>>,
  { columns: given, wantedRows, say }: PlanOptions,
) {
  const { first, all, isEnd } = await readFirst(rows, some => lengthOf(some) >= wantedRows)
  const sample = first.flat()
  const table = tableOf({ rows: sample, say }, given)
  const { options, known } = table
  /** Columns of `--column` that no row has had so far. */
  const missing = new Set(options.taken.map(({ column }) => column))
  for (const column of known) missing.delete(column)
  for (const { content } of sample) if ('row' in content) findMissing(content.row)
  let choice = chooseColumns([...known], table, missing)
  table.check?.(choice)
  if (isEnd) requireAll()
  const later: string[] = []

  function findMissing(row: unknown): void {
    for (const column of missing)
      if (table.valueAt(row, column) !== undefined) missing.delete(column)
  }

  function requireAll(): void {
    if (missing.size === 0) return
    const names = [...missing].map(quoted).join(' and ')
    throw new ColumnsError(
      `no row has ${names}, which --column takes; rows have ${listed([...known])}`,
    )
  }

  function addColumns(found: readonly string[], line: number): void {
    if (later.length < MAX_LATER) later.push(...found)
    if (!found.some(mayBeField)) return
    try {
      choice = chooseColumns([...new Set([...known, ...found])], table, missing)
    } catch (error) {
      throw new ColumnsError(`line ${line}: ${(error as Error).message}`)
    }
  }

  function recordOf(record: ImportRecord): ImportRecord {
    const { line, raw, content } = record
    const found = 'row' in content ? table.look(content.row) : undefined
    if (found === undefined || !('row' in content)) return record
    if (missing.size > 0) findMissing(content.row)
    if (found.length > 0) addColumns(found, line)
    const row: Record<string, unknown> = {}
    for (const [field, columns] of choice.reads) {
      const value = fieldValue(columns, column => table.valueAt(content.row, column))
      const problem = table.problemIn?.(field, value)
      if (problem !== undefined) return { line, raw, content: { problem } }
      row[field] = value
    }
    if (options.nameFrom !== undefined) nameFromEmail(row)
    return { line, raw, content: { row } }
  }

  /** All columns, in one line. */
  function describe(): string {
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
  }

  async function* records(): AsyncGenerator<readonly ImportRecord[]> {
    let isSaid = false
    try {
      for await (const chunk of all()) {
        if (!isSaid && known.size > 0) say(describe())
        isSaid ||= known.size > 0
        yield chunk.map(recordOf)
      }
      requireAll()
    } finally {
      const left = later.filter(column => !choice.reads.has(column))
      if (left.length > 0) say(`later rows have other columns, which were left: ${listed(left)}`)
    }
  }

  return { records: records(), seed: columnOptionsText(given) + table.seed }
}

/** Whether a column is one of a field, or a name in its path is like one. */
function mayBeField(column: string): boolean {
  const isLike = (name: string) => fieldLike(name) !== undefined || partOfName(name) !== undefined
  return IMPORT_COLUMNS.includes(column) || column.split('.').some(isLike)
}
