import { OperatorError } from '../../errors.ts'
import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import { type ColumnOptions, listed, quoted } from './column-options.ts'
import { fieldLike, partOfName } from './look-alikes.ts'
import type { Table } from './plan-columns.ts'

/** The columns of a file do not fit the options. With other options, an import has to begin at the first row again. */
export class ColumnsError extends OperatorError {}

/** The columns that are read as each field, and those that are left. */
export interface Choice {
  readonly reads: ReadonlyMap<string, readonly string[]>
  readonly left: readonly string[]
}

/** Taken as they are, they would let nobody in. */
const METEOR_DIGESTS = 'services.password.bcrypt'

/** Fields that are looked for in objects within a row. Such an object often is something else that has an id and times. */
const NESTED_FIELDS = ['name', 'email', 'password', 'password_digest']

/**
 * Decides about all columns: read are those that have the name of a field, and those of `--column`. Throws `ColumnsError` if two are
 * one field, or one that is left looks like a field, with what to add to the command. `missing` are those of `--column` that no row
 * has had so far.
 */
export function chooseColumns(
  columns: readonly string[],
  { options, isCsv, flags }: Pick<Table, 'options' | 'isCsv' | 'flags'>,
  missing: ReadonlySet<string>,
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
  for (const column of columns) {
    const field = isCsv ? column.toLowerCase() : column
    if (isTaken(column)) continue
    if (isIgnored(column) || !IMPORT_COLUMNS.includes(field)) left.push(column)
    else if (reads.has(field)) throw new ColumnsError([describeBoth(field, column)])
    else reads.set(field, [column])
  }

  function describeBoth(field: string, column: string): string {
    const [first = ''] = reads.get(field) ?? []
    if (missing.has(first))
      return `no row has ${quoted(first)}, which --column takes as ${field}; rows have ${quoted(column)}`
    return `${quoted(first)} and ${quoted(column)} are both read as ${field}: --ignore ${quoted(column)} leaves the second`
  }

  const namesOf = (column: string) =>
    isCsv ? [column] : column.split('.').filter(name => !/^\d+$/.test(name))
  const parentOf = (column: string) =>
    isCsv ? '' : column.slice(0, Math.max(0, column.lastIndexOf('.')))
  const besides = taken.map(({ column }) => parentOf(column)).filter(parent => parent !== '')
  const open = left.filter(column => !isIgnored(column) && !flags.has(column))
  const likeOf = (column: string) => fieldLike(namesOf(column).at(-1) ?? '')

  const asked = new Set<string>()
  /** What to do about a column that looks like a field. An object that looks like one is named by its first member. */
  function describeAlike(column: string): readonly string[] {
    const names = namesOf(column)
    const own = likeOf(column)
    const outer = own === undefined ? outerOf(column) : undefined
    const field = own ?? (outer && fieldLike(names.at(-2) ?? ''))
    if (field === undefined) return []
    const others = reads.get(field)
    const isNested =
      names.length > (outer === undefined ? 1 : 2) && !besides.includes(parentOf(column))
    if (isNested && (others !== undefined || !NESTED_FIELDS.includes(field))) return []
    if (outer !== undefined && others !== undefined) return []
    asked.add(field)
    const [name, take] = [quoted(outer ?? column), `--column ${quoted(`${column}=${field}`)}`]
    if (column === METEOR_DIGESTS)
      return [
        `${name} has digests of Meteor, which hashes passwords before bcrypt: docs/moving-in.md has its recipe, --ignore ${name} leaves it`,
      ]
    if (others === undefined)
      return [`${name} looks like ${field}: ${take} takes it, --ignore ${name} leaves it`]
    const instead = others.map(other => `--ignore ${quoted(other)}`).join(' ')
    return [
      `${name} looks like ${field}, which ${listed(others)} is: --ignore ${name} leaves it, ` +
        `${take} ${instead} takes it instead`,
    ]
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

  /** The given and the family name, where no column is the name, or only one of them is. */
  function describeParts(): readonly string[] {
    const named = reads.get('name') ?? []
    const kindOf = (column: string) => partOfName(namesOf(column).at(-1) ?? '')
    const [first = open.find(kindOf)] = named
    if (first === undefined || nameFrom !== undefined || named.length > 1) return []
    const near = [first, ...open].filter(column => parentOf(column) === parentOf(first))
    const parts = ['given', 'family'].flatMap(
      kind => near.find(column => kindOf(column) === kind) ?? [],
    )
    const added = parts.filter(column => !named.includes(column))
    if (added.length === 0 || !parts.includes(first)) return []
    const takes = parts.map(column => `--column ${quoted(`${column}=name`)}`).join(' ')
    const leaves = added.map(column => `--ignore ${quoted(column)}`).join(' ')
    const verb = parts.length > 1 ? 'joins them' : 'takes it'
    return [
      `${listed(added)} ${added.length > 1 ? 'look' : 'looks'} like parts of name: ${takes} ${verb}, ${leaves} leaves them`,
    ]
  }

  const alike = open.flatMap(describeAlike)
  const problems = asked.has('name') ? alike : [...alike, ...describeParts()]
  if (problems.length > 0) throw new ColumnsError([problems.join('; ')])
  return { reads, left }
}

/** The fields without which no row can be a user, and that no column is read as. */
export function lackingOf({ reads }: Choice, { nameFrom }: ColumnOptions): readonly string[] {
  const needed = nameFrom === undefined ? ['name', 'email'] : ['email']
  return needed.filter(field => !reads.has(field))
}

/** All columns, in one line. */
export function describeChoice(
  choice: Choice,
  options: ColumnOptions,
  missing: ReadonlySet<string>,
): string {
  const read = Array.from(choice.reads).flatMap(([field, columns]) =>
    columns
      .filter(column => !missing.has(column))
      .map(column => quoted(column) + (column === field ? '' : ` as ${field}`)),
  )
  return [
    `columns: reads ${read.join(', ') || 'nothing'}`,
    `leaves ${listed(choice.left)}`,
    ...lackingOf(choice, options).map(
      field => `none is read as ${field}: --column "COLUMN=${field}" takes one`,
    ),
    ...(missing.size > 0 ? [`no row so far has ${listed([...missing])}`] : []),
  ].join('; ')
}
