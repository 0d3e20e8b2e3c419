import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import { type Choice, ColumnsError } from './choose-columns.ts'
import { type ColumnOptions, listed, quoted } from './column-options.ts'
import type { CsvHeader } from './row-reader.ts'
import { valueAt } from './row-values.ts'

/**
 * The options with the headings of the file in place of the names given, which may be in any case. A heading in the same case is
 * preferred. Throws `ColumnsError` if `--column` takes a column that no heading names.
 */
export function spellAs(headings: readonly string[], options: ColumnOptions): ColumnOptions {
  const headingFor = (name: string) =>
    headings.find(heading => heading === name) ??
    headings.find(heading => heading.toLowerCase() === name.toLowerCase())
  const taken = options.taken.map(({ column, field }) => {
    const heading = headingFor(column)
    if (heading !== undefined) return { column: heading, field }
    const wanted = `${quoted(column)}, which --column takes as ${field}`
    throw new ColumnsError(describeMissing(headings, wanted))
  })
  return { ...options, taken, ignored: options.ignored.map(name => headingFor(name) ?? name) }
}

/** Throws `ColumnsError` if no column is read as the name or the e-mail, or if two are. */
export function requireFields(
  { headings, delimiter }: CsvHeader,
  { reads, left, lacking }: Choice,
): void {
  const ignored = left.filter(column => lacking.includes(column.toLowerCase()))
  const twice = [...reads.values(), ignored]
    .flat()
    .find(column => headings.indexOf(column) < headings.lastIndexOf(column))
  if (twice !== undefined)
    throw new ColumnsError(`the first line names ${quoted(twice)} twice: rename the one to leave`)
  const wanted = lacking.map(quoted).join(' and ')
  if (ignored.length > 0)
    throw new ColumnsError(`no column is read as ${wanted}, and --ignore leaves ${listed(ignored)}`)
  if (lacking.length === 0) return
  const other = ['|', ';', '\t', ','].find(
    unit => unit !== delimiter && headings.some(heading => heading.includes(unit)),
  )
  const shown = other === '\t' ? 'tab' : quoted(other ?? '')
  const hint = other && `; if its cells are divided so, add --delimiter ${shown}`
  throw new ColumnsError(describeMissing(headings, wanted) + (hint ?? ''))
}

function describeMissing(headings: readonly string[], wanted: string): string {
  // A row of data may hold a password, so it is not shown.
  if (headings.some(heading => heading.includes('@')))
    return 'the first line holds an e-mail address, but it must name the columns, such as name,email'
  const found = headings.every(heading => heading === '') ? 'nothing' : listed(headings)
  return (
    `the first line does not name ${wanted}; it names ${found}; known columns are ` +
    `${IMPORT_COLUMNS.join(', ')}, and --column "COLUMN=FIELD" takes another one`
  )
}

/** Cells that databases write for nothing. */
const NULLS = ['NULL', '\\N']

/** Throws `ColumnsError` if cells of the first rows are what databases write for nothing. */
export function requireNoNulls(
  { delimiter }: CsvHeader,
  { reads }: Choice,
  rows: readonly unknown[],
): void {
  const cellsOf = (columns: readonly string[] = []) =>
    rows.flatMap(row => columns.map(column => String(valueAt(row, column))))
  const cells = cellsOf([...reads.values()].flat())
  const found = NULLS.filter(text => cells.includes(text))
  const isTabs = delimiter === '\t'
  const isText = isTabs && found.includes('\\N')
  const hasEscapes =
    isText || (isTabs && cellsOf(reads.get('name')).some(text => /\\[tnr\\]/.test(text)))
  if (found.length === 0 && !hasEscapes) return
  const takes = found.flatMap(text => (isText && text === '\\N' ? [] : `--null ${quoted(text)}`))
  const add = [...takes, ...(hasEscapes ? ['--escape backslash'] : [])].join(' ')
  const seen = [...found.map(quoted), ...(hasEscapes && !isText ? ['backslashes'] : [])]
  throw new ColumnsError(
    `cells have ${seen.join(' and ')}, as databases write them: ${add} reads them, --null "" takes them as they are`,
  )
}

/** Why a later row with such a cell is not taken. */
export function nullProblem(field: string, cell: unknown): string | undefined {
  if (!NULLS.includes(cell as string)) return undefined
  const shown = quoted(cell as string)
  return `has ${shown} as ${field}: --null ${shown} takes it as nothing, --null "" as it is`
}
