import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import { counted } from '../terminal/terminal.ts'
import {
  type Choice,
  type ColumnFacts,
  ColumnsError,
  chooseColumns,
  describeChoice,
  lackingOf,
} from './choose-columns.ts'
import { type ColumnOptions, fieldValue, listed, nameFromEmail, quoted } from './column-options.ts'
import type { CsvRow } from './csv-rows.ts'
import { TOO_LONG } from './format.ts'
import type { OpenCsv } from './read-csv.ts'

const FACTS: ColumnFacts = { isCsv: true, flags: new Set(), missing: new Set() }

/** Cells that databases write for nothing. */
const NULLS = ['NULL', '\\N']

/**
 * Plans how rows of CSV become records, by the headings and the first rows. An empty cell counts as missing. Throws
 * `ColumnsError` if the headings do not fit the options, or cells are what databases write for nothing.
 */
export function planCsv(
  { headings, delimiter }: Pick<OpenCsv, 'headings' | 'delimiter'>,
  sample: readonly CsvRow[],
  given: ColumnOptions,
) {
  const options = resolve(headings, given)
  const choice = chooseColumns(
    [...new Set(headings)].filter(heading => heading !== ''),
    options,
    FACTS,
  )
  requireFields(headings, delimiter, choice, options)
  /** The last of those with one heading counts, as spreadsheets have it. */
  const sources = Array.from(choice.reads, ([field, columns]) => ({
    field,
    places: columns.map(column => headings.lastIndexOf(column)),
  }))
  const nulls = new Set(['', ...(given.null ?? [])])
  const isUndecided = given.null === undefined && given.escape === undefined
  const read = sources.flatMap(({ places }) => places)
  if (isUndecided) requireNoNulls(sample)
  const unnamed = new Set<number>()
  const news = [describeChoice(choice, options, FACTS.missing)]

  function requireNoNulls(rows: readonly CsvRow[]): void {
    const cells = rows.flatMap(({ fields }) => read.map(place => fields?.[place] ?? ''))
    const found = NULLS.filter(text => cells.includes(text))
    const names = choice.reads.get('name')?.map(column => headings.lastIndexOf(column)) ?? []
    const isText = delimiter === '\t' && found.includes('\\N')
    const isEscape = (place: number) =>
      delimiter === '\t' && rows.some(({ fields }) => /\\[tnr\\]/.test(fields?.[place] ?? ''))
    const hasEscapes = isText || names.some(isEscape)
    if (found.length === 0 && !hasEscapes) return
    const takes = found.flatMap(text => (isText && text === '\\N' ? [] : `--null ${quoted(text)}`))
    const add = [...takes, ...(hasEscapes ? ['--escape backslash'] : [])].join(' ')
    const seen = [...found.map(quoted), ...(hasEscapes && !isText ? ['backslashes'] : [])].join(
      ' and ',
    )
    throw new ColumnsError([
      `cells have ${seen}, as databases write them: ${add} reads them, --null "" takes them as they are`,
    ])
  }

  function recordOf({ line, fields }: CsvRow): ImportRecord {
    if (fields === undefined) return { line, raw: '', content: TOO_LONG }
    const raw = JSON.stringify(fields)
    for (let place = 0; place < fields.length; place++) {
      if (headings[place] || (fields[place] as string).trim() === '') continue
      if (place >= headings.length) {
        const problem = `has ${counted(fields.length, 'fields')} instead of ${headings.length}`
        return { line, raw, content: { problem } }
      }
      if (!unnamed.has(place)) news.push(`column ${place + 1} has no heading and is left`)
      unnamed.add(place)
    }
    const row: Record<string, unknown> = {}
    for (const { field, places } of sources) {
      const text = fieldValue(places.map(place => cellOf(fields[place])))
      if (isUndecided && NULLS.includes(text as string)) {
        const shown = quoted(text as string)
        const problem = `has ${shown} as ${field}: --null ${shown} takes it as nothing, --null "" as it is`
        return { line, raw, content: { problem } }
      }
      row[field] = text
    }
    if (options.nameFrom !== undefined) nameFromEmail(row)
    return { line, raw, content: { row } }
  }

  function cellOf(text: string | undefined): string | undefined {
    return text === undefined || nulls.has(text) ? undefined : text
  }

  return {
    recordOf,
    news: () => news.splice(0),
    seed: `${JSON.stringify(headings.map(heading => heading.toLowerCase()))}\n`,
  }
}

/** With the headings that options mean. One may be named in any case; first counts the one that is the same. */
function resolve(headings: readonly string[], options: ColumnOptions): ColumnOptions {
  const headingFor = (name: string) =>
    headings.find(heading => heading === name) ??
    headings.find(heading => heading.toLowerCase() === name.toLowerCase())
  const taken = options.taken.map(({ column, field }) => {
    const heading = headingFor(column)
    if (heading !== undefined) return { column: heading, field }
    throw new ColumnsError([
      describeMissing(headings, `${quoted(column)}, which --column takes as ${field}`),
    ])
  })
  return { ...options, taken, ignored: options.ignored.map(name => headingFor(name) ?? name) }
}

function requireFields(
  headings: readonly string[],
  delimiter: string,
  choice: Choice,
  options: ColumnOptions,
): void {
  const lacking = lackingOf(choice, options)
  const ignored = choice.left.filter(column => lacking.includes(column.toLowerCase()))
  const read = [...choice.reads.values()].flat()
  const twice = [...read, ...ignored].find(
    column => headings.indexOf(column) < headings.lastIndexOf(column),
  )
  if (twice !== undefined)
    throw new ColumnsError([`the first line names ${quoted(twice)} twice: rename the one to leave`])
  const wanted = lacking.map(quoted).join(' and ')
  if (ignored.length > 0)
    throw new ColumnsError([
      `no column is read as ${wanted}, and --ignore leaves ${listed(ignored)}`,
    ])
  if (lacking.length === 0) return
  const other = ['|', ';', '\t', ','].find(
    unit => unit !== delimiter && headings.some(heading => heading.includes(unit)),
  )
  const shown = other === '\t' ? 'tab' : quoted(other ?? '')
  const hint = other && `; if its cells are divided so, add --delimiter ${shown}`
  throw new ColumnsError([describeMissing(headings, wanted) + (hint ?? '')])
}

function describeMissing(headings: readonly string[], wanted: string): string {
  // A row of data may hold a password, so it is not shown.
  if (headings.some(heading => heading.includes('@'))) {
    return 'the first line holds an e-mail address, but it must name the columns, such as name,email'
  }
  const found = headings.every(heading => heading === '') ? 'nothing' : listed(headings)
  return (
    `the first line does not name ${wanted}; it names ${found}; known columns are ` +
    `${IMPORT_COLUMNS.join(', ')}, and --column "COLUMN=FIELD" takes another one`
  )
}
