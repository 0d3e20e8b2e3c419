import { isObject } from '../../platform/json.ts'
import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import { ColumnsError, chooseColumns } from './choose-columns.ts'
import {
  type ColumnOptions,
  columnOptionsText,
  fieldValue,
  listed,
  nameFromEmail,
  quoted,
} from './column-options.ts'
import { nullProblem, requireFields, requireNoNulls, spellAs } from './csv-header.ts'
import { fieldLike, partOfName } from './look-alikes.ts'
import { lengthOf, readFirst } from './read-first.ts'
import type { readRows } from './read-rows.ts'
import { eachColumn, valueAt } from './row-values.ts'

export interface PlanOptions {
  readonly columns: ColumnOptions
  /** How many rows the columns are known by, if there are as many. */
  readonly wantedRows: number
  /** Called with a line about the columns before the first record, and later about others. */
  readonly say: (line: string) => void
}

/** Keys of JSON may be data. More columns than this are checked, but not remembered. */
const MAX_KNOWN = 1000

/**
 * Reads rows as records of users, by the columns of the first rows and the options. `seed` is what decides how rows are read,
 * besides their texts. Throws `ColumnsError` if columns do not fit the options, also at a later row.
 */
export async function planColumns(
  { rows, reader }: Awaited<ReturnType<typeof readRows>>,
  { columns: given, wantedRows, say }: PlanOptions,
) {
  const { first, all, isEnd } = await readFirst(rows, some => lengthOf(some) >= wantedRows)
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

  const sample = first
    .flat()
    .map(rowIn)
    .filter(row => row !== undefined)
  for (const row of sample) look(row)
  if (!options.taken.some(({ field }) => field === 'email')) reader.requireUsers?.([...known])
  const facts = { options, isCsv: header !== undefined, flags, missing }
  let choice = chooseColumns([...known], facts)
  if (header !== undefined) requireFields(header, choice)
  if (isUndecided) requireNoNulls(header, choice, sample)
  if (isEnd) requireAll()

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

  function requireAll(): void {
    if (missing.size === 0) return
    const names = [...missing].map(quoted).join(' and ')
    throw new ColumnsError(
      `no row has ${names}, which --column takes; rows have ${listed([...known])}`,
    )
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

  function recordOf(record: ImportRecord): ImportRecord {
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
        for (const line of reader.news?.splice(0) ?? []) say(line)
        yield chunk.map(recordOf)
      }
      requireAll()
    } finally {
      const left = later.filter(column => !choice.reads.has(column))
      if (left.length > 0) say(`later rows have other columns, which were left: ${listed(left)}`)
    }
  }

  const names = headings.map(heading => heading.toLowerCase())
  const seed = header === undefined ? '' : `${JSON.stringify(names)}\n`
  return { records: records(), seed: columnOptionsText(given) + seed }
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
