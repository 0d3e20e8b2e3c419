import { OperatorError } from '../../errors.ts'
import { isObject } from '../../json.ts'
import { IMPORT_COLUMNS } from '../../users/transfer/import-rows.ts'
import { type ColumnOptions, listed, quoted } from './column-options.ts'
import { fieldLike } from './look-alikes.ts'

/** The columns of a file do not fit the options. With other options, an import has to begin at the first row again. */
export class ColumnsError extends OperatorError {}

export type Row = Record<string, unknown>

/** Keys of JSON may be data. More columns than this are checked, but not remembered. */
const MAX_KNOWN = 1000

/** Fields that are looked for in objects within a row. Such an object often is something else that has an id and times. */
const NESTED_FIELDS = ['name', 'email', 'password', 'password_digest']

/**
 * Which columns are read as which fields: those that have the name of a field, and those of `--column`. In CSV, the case of names
 * does not matter, and ids are text.
 */
export function createColumnPlan(options: ColumnOptions, { isCsv }: { readonly isCsv: boolean }) {
  const { ignored, nameFrom } = options
  const known = new Set<string>()
  const taken = [...options.taken]
  const left: string[] = []
  /** New columns of JSON that are true or false. They are no fields, whatever their names are like. */
  const flags = new Set<string>()
  /** What a row has under another name than that of the field. */
  const moves = [...options.taken]
  /** Columns of `--column` that no row has had so far. */
  const missing = new Set(isCsv ? [] : moves.map(({ column }) => column))

  /** Whether a column is another one or, in JSON, has it in it. */
  const covers = (outer: string, column: string) =>
    column === outer || (!isCsv && column.startsWith(`${outer}.`))
  const isOption = (column: string) => options.taken.some(option => covers(column, option.column))
  const isIgnored = (column: string) => ignored.some(name => covers(name, column))

  /** The field of which a column has the name, unless an option says otherwise. */
  function fieldNamed(column: string): string | undefined {
    const field = isCsv ? column.toLowerCase() : column
    const isFree = IMPORT_COLUMNS.includes(field) && !isOption(column) && !isIgnored(column)
    return isFree ? field : undefined
  }

  /** Fields that a row may have under their own names, and that are not read. */
  const cleared = IMPORT_COLUMNS.filter(field => fieldNamed(field) === undefined)

  /** Adds new columns, of which `where` is the place in messages. Throws `ColumnsError` if two are one field, or one that is left looks like a field. */
  function add(columns: readonly string[], where = ''): void {
    const others: string[] = []
    for (const column of columns) {
      const field = fieldNamed(column)
      if (field === undefined) {
        if (!isOption(column)) others.push(column)
        continue
      }
      const first = taken.find(other => other.field === field)?.column
      if (first !== undefined) {
        if (missing.has(first)) {
          const wanted = `${quoted(first)}, which --column takes as ${field}`
          throw new ColumnsError([`${where}no row has ${wanted}; rows have ${quoted(column)}`])
        }
        const both = `${quoted(first)} and ${quoted(column)} are both read as ${field}`
        throw new ColumnsError([`${where}${both}: --ignore ${quoted(column)} leaves the second`])
      }
      taken.push({ column, field })
      if (column !== field) moves.push({ column, field })
    }
    const alike = others
      .filter(column => !isIgnored(column) && !flags.has(column))
      .flatMap(describeAlike)
    if (alike.length > 0) throw new ColumnsError([where + alike.join('; ')])
    flags.clear()
    // More of them are not shown.
    if (left.length < MAX_KNOWN) left.push(...others)
  }

  /** What to do about a column that is left, if it looks like a field. */
  function describeAlike(column: string): readonly string[] {
    const [, inner] = isCsv ? [] : (/\.(.+)$/s.exec(column) ?? [])
    const field = fieldLike(inner ?? column)
    const other = taken.find(other => other.field === field)?.column
    if (field === undefined) return []
    if (inner !== undefined && (other !== undefined || !NESTED_FIELDS.includes(field))) return []
    const [name, take] = [quoted(column), `--column ${quoted(`${column}=${field}`)}`]
    return other === undefined
      ? [`${name} looks like ${field}: ${take} takes it, --ignore ${name} leaves it`]
      : [
          `${name} looks like ${field}, which ${quoted(other)} is: --ignore ${name} leaves it, ` +
            `${take} --ignore ${quoted(other)} takes it instead`,
        ]
  }

  /** The columns of a row of JSON that were not known. Those of an object in it have its name before theirs. */
  function look(row: Row): readonly string[] {
    let found: string[] | undefined
    const visit = (column: string, value: unknown) => {
      if (known.has(column)) return
      if (known.size < MAX_KNOWN || IMPORT_COLUMNS.includes(column)) known.add(column)
      if (typeof value === 'boolean') flags.add(column)
      found ??= []
      found.push(column)
    }
    for (const name in row) {
      const value = row[name]
      if (!isObject(value) || fieldNamed(name) !== undefined) visit(name, value)
      else for (const inner in value) visit(`${name}.${inner}`, value[inner])
    }
    return found ?? []
  }

  /** Gives a row its fields, in place: a copy would take longer. */
  function take(row: Row): void {
    const values = moves.map(({ column }) => valueAt(row, column))
    for (const field of cleared) if (row[field] !== undefined) row[field] = undefined
    for (const [index, { column, field }] of moves.entries()) {
      row[field] = values[index]
      if (values[index] !== undefined) missing.delete(column)
    }
    if (isCsv && typeof row.id === 'string') row.id = numberOf(row.id.trim())
    if (nameFrom === undefined || typeof row.email !== 'string') return
    if (row.name == null || String(row.name).trim() === '') row.name = row.email.split('@', 1)[0]
  }

  /** The fields without which no row can be a user, and that no column is read as. */
  function lacking(): readonly string[] {
    const needed = nameFrom === undefined ? ['name', 'email'] : ['email']
    return needed.filter(field => !taken.some(other => other.field === field))
  }

  /** All columns so far, in one line. */
  function describe(): string {
    const read = taken
      .filter(({ column }) => !missing.has(column))
      .map(({ column, field }) => quoted(column) + (column === field ? '' : ` as ${field}`))
    return [
      `columns: reads ${read.join(', ') || 'nothing'}`,
      `leaves ${listed(left)}`,
      ...lacking().map(field => `none is read as ${field}: --column "COLUMN=${field}" takes one`),
      missing.size > 0 && `no row so far has ${listed([...missing])}`,
    ]
      .filter(part => part !== false)
      .join('; ')
  }

  return {
    ...{ add, look, take, lacking, describe, left, missing },
    isRead: (column: string) => isOption(column) || fieldNamed(column) !== undefined,
    /** All columns so far; if too many, without some. */
    columns: () => [...known],
    isEmpty: () => known.size === 0,
  }
}

export type ColumnPlan = ReturnType<typeof createColumnPlan>

/** The value of a column, or else at the path. */
function valueAt(row: Row, column: string): unknown {
  if (Object.hasOwn(row, column)) return row[column]
  let value: unknown = row
  for (const name of column.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Row)[name]
  }
  return value
}

/** A number if its usual form is exactly this text, otherwise the text itself. */
function numberOf(text: string): number | string {
  const value = Number(text)
  return String(value) === text ? value : text
}
