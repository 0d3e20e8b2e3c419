import { isObject } from '../../json.ts'
import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import { type ColumnOptions, columnOptionsText, listed, quoted } from './column-options.ts'
import { type ColumnPlan, ColumnsError, createColumnPlan, type Row } from './column-plan.ts'
import type { CsvListener } from './csv-records.ts'

/**
 * JSON has no headings. Its columns are those in the first chunk with rows, because a stream may pause after it. If
 * one of `--column` is not among them, the import reads on for it, up to this many rows or chunks.
 */
const FIRST_ROWS = 1000
const FIRST_CHUNKS = 16

type Chunk = readonly ImportRecord[]

export interface ChoiceOptions extends ColumnOptions {
  /** Called before the first record with a line about the columns that are read and left, and later about others. */
  readonly say: (line: string) => void
}

/**
 * Records of CSV, with columns taken as fields. `read` must call `onHeadings` before it yields a record. Throws `ColumnsError`
 * if the headings do not fit the options.
 */
export function chooseCsvColumns(
  read: (listener: Required<CsvListener>) => AsyncIterable<Chunk>,
  { say, ...options }: ChoiceOptions,
): AsyncIterable<Chunk> {
  let plan: ColumnPlan | undefined
  const chunks = read({
    onHeadings: headings => {
      plan = planHeadings(headings, options)
      say(plan.describe())
    },
    onUnnamed: column => say(`column ${column} has no heading and is left`),
  })
  async function* choose(): AsyncGenerator<Chunk> {
    for await (const chunk of chunks) {
      for (const { content } of chunk) if ('row' in content) plan?.take(content.row as Row)
      yield chunk
    }
  }
  return markFirst(choose(), options)
}

/** The plan for the headings. An option may name one in any case; first counts the one that is the same. */
function planHeadings(headings: readonly string[], options: ColumnOptions): ColumnPlan {
  const headingFor = (name: string) =>
    headings.find(heading => heading === name) ??
    headings.find(heading => heading.toLowerCase() === name.toLowerCase())
  const unknown = options.taken.find(({ column }) => headingFor(column) === undefined)
  if (unknown !== undefined) {
    const wanted = `${quoted(unknown.column)}, which --column takes as ${unknown.field}`
    throw new ColumnsError([describeMissing(headings, wanted)])
  }
  const resolved = (name: string) => headingFor(name) ?? name
  const taken = options.taken.map(({ column, field }) => ({ column: resolved(column), field }))
  const ignored = options.ignored.map(resolved)
  const plan = createColumnPlan({ ...options, taken, ignored }, { isCsv: true })
  const columns = [...new Set(headings)].filter(heading => heading !== '')
  plan.add(columns)
  const lacking = plan.lacking()
  const wanted = lacking.map(quoted).join(' and ')
  const ignoredWanted = columns.filter(column => lacking.includes(column.toLowerCase()))
  const twice = columns.find(
    column =>
      (plan.isRead(column) || ignoredWanted.includes(column)) &&
      headings.indexOf(column) < headings.lastIndexOf(column),
  )
  if (twice !== undefined) {
    throw new ColumnsError([`the first line names ${quoted(twice)} twice: rename the one to leave`])
  }
  if (ignoredWanted.length > 0) {
    const reason = `and --ignore leaves ${listed(ignoredWanted)}`
    throw new ColumnsError([`no column is read as ${wanted}, ${reason}`])
  }
  if (lacking.length > 0) throw new ColumnsError([describeMissing(headings, wanted)])
  return plan
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

/**
 * Records of JSON, with columns taken as fields. Throws `ColumnsError` at the first row with a column that does not fit the
 * options; rows before it were perhaps yielded.
 */
export function chooseJsonColumns(
  chunks: AsyncGenerator<Chunk>,
  { say, ...options }: ChoiceOptions,
): AsyncIterable<Chunk> {
  const plan = createColumnPlan(options, { isCsv: false })

  /** Returns the columns that were not known. */
  function takeRow({ content }: ImportRecord): readonly string[] {
    if (!('row' in content) || !isObject(content.row)) return []
    const found = plan.look(content.row)
    plan.take(content.row)
    return found
  }

  async function* choose(): AsyncGenerator<Chunk> {
    let announced = Number.POSITIVE_INFINITY
    /** Before the first rows that have columns. */
    function announce(): void {
      if (announced < Number.POSITIVE_INFINITY || plan.isEmpty()) return
      say(plan.describe())
      announced = plan.left.length
    }
    try {
      const found: string[] = []
      const first = await readFirst(chunks, chunk => {
        found.push(...chunk.flatMap(takeRow))
        return plan.missing.size === 0 ? 1 : FIRST_ROWS
      })
      plan.add(found)
      if (first.isEnd) requireAll(plan)
      announce()
      yield* first.chunks
      if (first.failure !== undefined) throw first.failure
      for await (const chunk of chunks) {
        for (const record of chunk) {
          const found = takeRow(record)
          if (found.length > 0) plan.add(found, `line ${record.line}: `)
        }
        announce()
        yield chunk
      }
      requireAll(plan)
    } finally {
      await chunks.return(undefined)
      const later = plan.left.slice(announced)
      if (later.length > 0) say(`later rows have other columns, which were left: ${listed(later)}`)
    }
  }
  return markFirst(choose(), options)
}

/**
 * Reads chunks until they have as many rows as `wantedAfter` says. `isEnd` tells that no more follow; `failure` is
 * what ended the reading after them.
 */
async function readFirst(chunks: AsyncGenerator<Chunk>, wantedAfter: (chunk: Chunk) => number) {
  const first: Chunk[] = []
  let rows = 0
  let wanted = 1
  try {
    while (rows < wanted && first.length < FIRST_CHUNKS) {
      const { value, done } = await chunks.next()
      if (done) return { chunks: first, isEnd: true }
      first.push(value)
      rows += value.length
      wanted = wantedAfter(value)
    }
  } catch (failure) {
    return { chunks: first, isEnd: false, failure }
  }
  return { chunks: first, isEnd: false }
}

/** Throws `ColumnsError` if no row had a column of `--column`. */
function requireAll({ missing, columns }: ColumnPlan): void {
  if (missing.size === 0) return
  const names = [...missing].map(quoted).join(' and ')
  throw new ColumnsError([
    `no row has ${names}, which --column takes; rows have ${listed(columns())}`,
  ])
}

/** Puts the options before the text of the first record, so that a resumed import recognises them too. */
async function* markFirst(
  chunks: AsyncIterable<Chunk>,
  options: ColumnOptions,
): AsyncGenerator<Chunk> {
  let mark = columnOptionsText(options)
  for await (const chunk of chunks) {
    const [first, ...others] = mark === '' ? [] : chunk
    if (first === undefined) yield chunk
    else yield [{ ...first, raw: `${mark}\n${first.raw}` }, ...others]
    if (first !== undefined) mark = ''
  }
}
