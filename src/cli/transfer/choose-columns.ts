import { OperatorError } from '../../errors.ts'
import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import { type ColumnOptions, listed, quoted } from './column-options.ts'
import { fieldLike, partOfName } from './look-alikes.ts'
import type { CsvHeader } from './row-reader.ts'
import { valueAt } from './row-values.ts'

/** The columns of a file do not fit the options. With other options, an import has to begin at the first row again. */
export class ColumnsError extends OperatorError {
  constructor(problem: string) {
    super([problem])
  }
}

/** The columns that are read as each field, and those that are left. */
export interface Choice {
  readonly reads: ReadonlyMap<string, readonly string[]>
  readonly left: readonly string[]
  /** The fields without which no row can be a user, and that no column is read as. */
  readonly lacking: readonly string[]
}

export interface ColumnFacts {
  readonly options: ColumnOptions
  /** The case of headings does not matter. Columns of JSON are paths, with dots. */
  readonly isCsv: boolean
  /** Columns of JSON that are true or false so far. They are no fields, whatever their names are like. */
  readonly flags: ReadonlySet<string>
  /** Columns of `--column` that no row has had so far. */
  readonly missing: ReadonlySet<string>
}

/** Taken as they are, they would let nobody in. */
const METEOR_DIGESTS = 'services.password.bcrypt'

/** Fields that are looked for in objects within a row. Such an object often is something else that has an id and times. */
const NESTED_FIELDS = ['name', 'email', 'password', 'password_digest']

/**
 * Decides about all columns: read are those that have the name of a field, and those of `--column`. Throws `ColumnsError` if two are
 * one field, or one that is left looks like a field, with what to add to the command.
 */
export function chooseColumns(
  columns: readonly string[],
  { options, isCsv, flags, missing }: ColumnFacts,
): Choice {
  const { taken, ignored, nameFrom } = options
  const reads = new Map<string, string[]>()
  for (const { column, field } of taken) reads.set(field, [...(reads.get(field) ?? []), column])
  const covers = (outer: string, column: string) =>
    column === outer || (!isCsv && column.startsWith(`${outer}.`))
  const isTaken = (column: string) =>
    taken.some(option => covers(option.column, column) || covers(column, option.column))
  const isIgnored = (column: string) => ignored.some(name => covers(name, column))

  const left: string[] = []
  for (const column of columns.filter(column => !isTaken(column))) {
    const field = isCsv ? column.toLowerCase() : column
    const [other] = reads.get(field) ?? []
    if (isIgnored(column) || !IMPORT_COLUMNS.includes(field)) left.push(column)
    else if (other === undefined) reads.set(field, [column])
    else {
      const [first, second] = [quoted(other), quoted(column)]
      const kind = field === 'name' ? partOfName(other) : undefined
      const isPart = kind && columns.every(name => [kind, undefined].includes(partOfName(name)))
      const parts = kind === 'given' ? [other, column] : [column, other]
      const join = isPart ? `${taking(parts, 'name')} joins them, ` : ''
      throw new ColumnsError(
        missing.has(other)
          ? `no row has ${first}, which --column takes as ${field}; rows have ${second}`
          : `${first} and ${second} are both read as ${field}: ${join}--ignore ${second} leaves the second`,
      )
    }
  }

  const open = left.filter(column => !isIgnored(column) && !flags.has(column))
  const namesOf = (column: string) =>
    isCsv ? [column] : column.split('.').filter(name => !/^\d+$/.test(name))
  const parentOf = (column: string) =>
    isCsv ? '' : column.slice(0, Math.max(0, column.lastIndexOf('.')))
  const likeOf = (column: string) => fieldLike(namesOf(column).at(-1) ?? '')
  const besides = taken.map(({ column }) => parentOf(column)).filter(parent => parent !== '')

  /** The field that a column looks like. An object that looks like one is named by its first member. */
  function findLikeness(column: string) {
    const names = namesOf(column)
    const own = likeOf(column)
    const outer = own === undefined ? outerOf(column) : undefined
    const field = own ?? (outer && fieldLike(names.at(-2) ?? ''))
    if (field === undefined) return []
    const isRead = reads.has(field)
    const depth = names.length - (outer === undefined ? 1 : 2)
    const isInside = depth > 0 && !besides.includes(parentOf(column))
    if (isInside && (isRead || !NESTED_FIELDS.includes(field))) return []
    return outer !== undefined && isRead ? [] : [{ column, field, shown: quoted(outer ?? column) }]
  }

  /** The object around a column, if this is its first member, and none is read or looks like a field. */
  function outerOf(column: string): string | undefined {
    const name = namesOf(column).at(-2)
    if (name === undefined) return undefined
    const path = column.split('.')
    const outer = path.slice(0, path.lastIndexOf(name) + 1).join('.')
    const members = columns.filter(other => covers(outer, other))
    const isPlain = members.every(
      member => !isTaken(member) && (flags.has(member) || likeOf(member) === undefined),
    )
    return isPlain && members.find(member => !flags.has(member)) === column ? outer : undefined
  }

  function advise({ column, field, shown }: { column: string; field: string; shown: string }) {
    if (column === METEOR_DIGESTS)
      return `${shown} has digests of Meteor, which hashes passwords before bcrypt: docs/moving-in.md has its recipe, --ignore ${shown} leaves it`
    const others = reads.get(field)
    const take = taking([column], field)
    if (others === undefined)
      return `${shown} looks like ${field}: ${take} takes it, --ignore ${shown} leaves it`
    const instead = others.every(isTaken)
      ? `${take} in place of ${taking(others, field)} takes it`
      : `${take} ${ignoring(others)} takes it instead`
    return `${shown} looks like ${field}, which ${listed(others)} is: --ignore ${shown} leaves it, ${instead}`
  }

  /**
   * The given and the family name, where no column is the name, or only one of them is. A column `name` beside only one of them is
   * mostly the other, as `Name` beside `Vorname`.
   */
  function adviseParts(): readonly string[] {
    const named = reads.get('name') ?? []
    const kindOf = (column: string) => partOfName(namesOf(column).at(-1) ?? '')
    const [first = open.find(kindOf)] = named
    if (first === undefined || nameFrom !== undefined || named.length > 1) return []
    const near = [first, ...open].filter(column => parentOf(column) === parentOf(first))
    const found = ['given', 'family'].map(kind => near.find(column => kindOf(column) === kind))
    const other = found.includes(first) || isTaken(first) ? undefined : first
    const parts = found.flatMap(column => column ?? other ?? [])
    const added = parts.filter(column => !named.includes(column))
    if (added.length === 0 || !parts.includes(first)) return []
    const [look, all] = added.length > 1 ? ['look like parts', 'them'] : ['looks like a part', 'it']
    const lacking = found[0] === undefined ? 'given' : 'family'
    const verb =
      parts.length > 1 ? 'joins them' : `takes it (no column looks like the ${lacking} name)`
    return [
      `${listed(added)} ${look} of name: ${taking(parts, 'name')} ${verb}, ${ignoring(added)} leaves ${all}`,
    ]
  }

  const alike = open.flatMap(findLikeness)
  const problems = alike.map(advise)
  if (!alike.some(({ field }) => field === 'name')) problems.push(...adviseParts())
  if (problems.length > 0) throw new ColumnsError(problems.join('; '))
  const needed = nameFrom === undefined ? ['name', 'email'] : ['email']
  return { reads, left, lacking: needed.filter(field => !reads.has(field)) }
}

function taking(columns: readonly string[], field: string): string {
  return columns.map(column => `--column ${quoted(`${column}=${field}`)}`).join(' ')
}

function ignoring(columns: readonly string[]): string {
  return columns.map(column => `--ignore ${quoted(column)}`).join(' ')
}

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
