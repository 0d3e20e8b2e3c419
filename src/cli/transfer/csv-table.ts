import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import { type Choice, ColumnsError } from './choose-columns.ts'
import { type ColumnOptions, listed, quoted } from './column-options.ts'
import type { Table } from './plan-columns.ts'
import type { Sample } from './read-rows.ts'

export interface CsvFile extends Sample {
  /** The first line, trimmed. Columns without a heading have an empty one. */
  readonly headings: readonly string[]
  readonly delimiter: string
}

/** Cells that databases write for nothing. */
const NULLS = ['NULL', '\\N']

/** The columns of CSV. An empty cell counts as missing. */
export function createCsvTable(file: CsvFile, given: ColumnOptions): Table {
  const { headings, say } = file
  const options = spellAs(headings, given)
  /** The last of those with one heading counts, as spreadsheets have it. */
  const places = new Map(headings.map((heading, place) => [heading, place]))
  const unnamed = new Set(headings.flatMap((heading, place) => (heading === '' ? place : [])))
  const nulls = new Set(['', ...(given.null ?? [])])
  const isUndecided = given.null === undefined && given.escape === undefined

  function valueAt(row: unknown, column: string): string | undefined {
    const text = (row as readonly string[])[places.get(column) as number]
    return text === undefined || nulls.has(text) ? undefined : text
  }

  return {
    options,
    isCsv: true,
    known: new Set(headings.filter(heading => heading !== '')),
    flags: new Set(),
    seed: `${JSON.stringify(headings.map(heading => heading.toLowerCase()))}\n`,
    look: row => {
      for (const place of unnamed) {
        if (!(row as readonly string[])[place]?.trim()) continue
        say(`column ${place + 1} has no heading and is left`)
        unnamed.delete(place)
      }
      return []
    },
    valueAt,
    check: choice => {
      requireFields(file, choice)
      if (isUndecided) requireNoNulls(file, choice, valueAt)
    },
    problemIn: (field, value) => {
      if (!isUndecided || !NULLS.includes(value as string)) return undefined
      const shown = quoted(value as string)
      return `has ${shown} as ${field}: --null ${shown} takes it as nothing, --null "" as it is`
    },
  }
}

/** With the headings that options mean. One may be named in any case; first counts the one that is the same. */
function spellAs(headings: readonly string[], options: ColumnOptions): ColumnOptions {
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

function requireFields({ headings, delimiter }: CsvFile, { reads, left, lacking }: Choice): void {
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

/** Throws `ColumnsError` if cells are what databases write for nothing. */
function requireNoNulls(
  { delimiter, rows }: CsvFile,
  { reads }: Choice,
  valueAt: Table['valueAt'],
): void {
  const taken = rows.flatMap(({ content }) => ('row' in content ? [content.row] : []))
  const cellsOf = (columns: readonly string[] = []) =>
    taken.flatMap(row => columns.map(column => String(valueAt(row, column))))
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
