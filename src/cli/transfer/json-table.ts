import { isObject } from '../../platform/json.ts'
import { IMPORT_COLUMNS, type ImportRecord } from '../../users/transfer/import-rows.ts'
import { ColumnsError } from './choose-columns.ts'
import { type ColumnOptions, quoted } from './column-options.ts'
import { fieldLike } from './look-alikes.ts'
import type { Table } from './plan-columns.ts'

/** Keys of JSON may be data. More columns than this are checked, but not remembered. */
const MAX_KNOWN = 1000

/** How deep columns are looked for; those of an array in its first value. */
const MAX_DEPTH = 5

/**
 * The columns of objects: their members, and paths to what is in these. Throws `ColumnsError` if the first rows have no e-mails and
 * one of the places `elsewhere` does.
 */
export function createJsonTable(
  sample: readonly ImportRecord[],
  options: ColumnOptions,
  elsewhere: readonly string[],
): Table {
  const known = new Set<string>()
  const flags = new Set<string>()

  function look(row: unknown): readonly string[] | undefined {
    if (!isObject(row)) return undefined
    const found: string[] = []
    const visit = (column: string, given: unknown, depth: number) => {
      const value = plainValue(given)
      if (typeof value === 'object' && value !== null && depth < MAX_DEPTH) {
        const names = Object.keys(Array.isArray(value) ? value.slice(0, 1) : value)
        for (const name of names) visit(`${column}.${name}`, Object(value)[name], depth + 1)
        if (names.length > 0) return
      }
      if (known.has(column)) return
      if (known.size < MAX_KNOWN || IMPORT_COLUMNS.includes(column)) known.add(column)
      if (typeof value === 'boolean') flags.add(column)
      found.push(column)
    }
    for (const name in row) visit(name, row[name], 1)
    return found
  }

  for (const { content } of sample) if ('row' in content) look(content.row)
  requireNoOther([...known], options, elsewhere)
  return { options, isCsv: false, known, flags, seed: '', look, valueAt }
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
  if (places.length > 0) throw new ColumnsError(`the file ${adviseAt(places)}`)
}

const MAX_SHOWN_PATHS = 10

/** What to add, as the first column of a line of places. */
export function adviseAt(paths: readonly string[]): string {
  const likely = paths.find(path => /users?$/i.test(path)) ?? paths[0] ?? ''
  const shown = paths.slice(0, MAX_SHOWN_PATHS).join(', ')
  return `has lists of objects at ${shown}: add --at PATH, such as --at ${quoted(likely)}`
}

/** The value of a column, or else at the path. */
function valueAt(row: unknown, column: string): unknown {
  const members = Object(row)
  if (Object.hasOwn(members, column)) return plainValue(members[column])
  let value = row
  for (const name of column.split('.')) {
    if (!Object.hasOwn(Object(value), name)) return undefined
    value = Object(value)[name]
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
