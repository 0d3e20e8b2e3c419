import { isObject } from '../../platform/json.ts'
import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import { type Choice, ColumnsError, chooseColumns, describeChoice } from './choose-columns.ts'
import { type ColumnOptions, fieldValue, listed, nameFromEmail, quoted } from './column-options.ts'
import { fieldLike, partOfName } from './look-alikes.ts'
import { adviseAt } from './read-json.ts'

type Row = Record<string, unknown>

/** Keys of JSON may be data. More columns than this are checked, but not remembered. */
const MAX_KNOWN = 1000

/** How deep columns are looked for; those of an array in its first value. */
const MAX_DEPTH = 5

/**
 * Plans how rows of JSON become users, by the first of them. Throws `ColumnsError` if their columns do not fit the options, or if
 * they have no e-mails and one of the places `elsewhere` does.
 */
export function planJson(
  sample: readonly ImportRecord[],
  options: ColumnOptions,
  elsewhere: readonly string[],
) {
  const known = new Set<string>()
  const flags = new Set<string>()
  /** Columns of `--column` that no row has had so far. */
  const missing = new Set(options.taken.map(({ column }) => column))
  const facts = { isCsv: false, flags, missing }
  /** Columns that only later rows have. */
  const later: string[] = []
  let isSaid = false

  /** The columns of a row that were not known. Extended JSON becomes its value. */
  function look(row: Row): readonly string[] {
    let found: string[] | undefined
    const note = (column: string, value: unknown) => {
      if (known.has(column)) return
      if (known.size < MAX_KNOWN || IMPORT_COLUMNS.includes(column)) known.add(column)
      if (typeof value === 'boolean') flags.add(column)
      found ??= []
      found.push(column)
    }
    const visit = (column: string, value: unknown, depth: number) => {
      const isOpen = typeof value === 'object' && value !== null && depth < MAX_DEPTH
      const names = isOpen ? Object.keys(Array.isArray(value) ? value.slice(0, 1) : value) : []
      if (names.length === 0) note(column, value)
      for (const name of names)
        visit(`${column}.${name}`, plainValue((value as Row)[name]), depth + 1)
    }
    for (const name in row) {
      const value = plainValue(row[name])
      if (value !== row[name]) row[name] = value
      visit(name, value, 1)
    }
    for (const column of missing) if (valueAt(row, column) !== undefined) missing.delete(column)
    return found ?? []
  }

  for (const { content } of sample) if ('row' in content && isObject(content.row)) look(content.row)
  requireNoOther([...known], options, elsewhere)
  let choice: Choice = chooseColumns([...known], options, facts)

  /** The same row with its fields under their names. */
  function take(row: Row): Row {
    const isUsual = options.taken.length + options.ignored.length === 0
    const user: Row = isUsual ? row : {}
    if (!isUsual) {
      for (const [field, columns] of choice.reads) {
        user[field] = fieldValue(columns.map(column => valueAt(row, column)))
      }
    }
    if (options.nameFrom !== undefined) nameFromEmail(user)
    return user
  }

  function check(found: readonly string[], line: number): void {
    if (later.length < MAX_KNOWN) later.push(...found)
    const isLike = (name: string) => fieldLike(name) !== undefined || partOfName(name) !== undefined
    if (!found.some(column => IMPORT_COLUMNS.includes(column) || column.split('.').some(isLike)))
      return
    try {
      choice = chooseColumns([...new Set([...known, ...found])], options, facts)
    } catch (error) {
      throw new ColumnsError([`line ${line}: ${(error as Error).message}`])
    }
  }

  return {
    /** Throws `ColumnsError` for a row that has a new column which does not fit the options. */
    recordOf: (record: ImportRecord): ImportRecord => {
      const { content, line } = record
      if (!('row' in content) || !isObject(content.row)) return record
      const found = look(content.row)
      if (found.length > 0) check(found, line)
      return { ...record, content: { row: take(content.row) } }
    },
    news: () => {
      if (isSaid || known.size === 0) return []
      isSaid = true
      return [describeChoice(choice, options, missing)]
    },
    lastNews: () => {
      const left = later.filter(column => !choice.reads.has(column))
      return left.length > 0
        ? `later rows have other columns, which were left: ${listed(left)}`
        : undefined
    },
    seed: '',
    requireAll: (): void => {
      if (missing.size === 0) return
      const names = [...missing].map(quoted).join(' and ')
      throw new ColumnsError([
        `no row has ${names}, which --column takes; rows have ${listed([...known])}`,
      ])
    },
  }
}

/** phpMyAdmin and others write tables as values of an array. */
function requireNoOther(
  known: readonly string[],
  { taken }: ColumnOptions,
  elsewhere: readonly string[],
): void {
  const isEmail = (column: string) => fieldLike(column) === 'email'
  if (known.some(isEmail) || taken.some(({ field }) => field === 'email')) return
  const places = elsewhere.filter(path => {
    const start = `${path.slice(path.indexOf('.') + 1)}.0.`
    return known.some(column => column.startsWith(start) && isEmail(column.slice(start.length)))
  })
  if (places.length > 0) throw new ColumnsError([`the file ${adviseAt(places)}`])
}

/** The value of a column, or else at the path. */
function valueAt(row: Row, column: string): unknown {
  if (Object.hasOwn(row, column)) return row[column]
  let value: unknown = row
  for (const name of column.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Row)[name]
  }
  return plainValue(value)
}

/** The value of MongoDB's Extended JSON, of which an object has one member. Any other value stays as it is. */
function plainValue(value: unknown): unknown {
  if (!isObject(value)) return value
  const [name, ...others] = Object.keys(value)
  if (name === undefined || others.length > 0 || !name.startsWith('$')) return value
  const inner = plainValue(value[name])
  if (name === '$oid') return inner
  if (/^\$number(?:Long|Int|Double)$/.test(name)) return Number(inner)
  if (name !== '$date') return value
  const time = new Date(inner as string | number)
  return Number.isNaN(time.getTime()) ? inner : time.toISOString()
}
