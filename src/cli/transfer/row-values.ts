import { isObject } from '../../platform/json.ts'

/** How deep columns are looked for. */
const MAX_DEPTH = 5

/**
 * Calls back with each column of a row and its value: with members, and with paths to what is in these, which of an array is its
 * first value.
 */
export function eachColumn(
  row: Readonly<Record<string, unknown>>,
  note: (column: string, value: unknown) => void,
  outer: readonly string[] = [],
): void {
  for (const name in row) {
    const value = plainValue(row[name])
    const inner = outer.length < MAX_DEPTH - 1 ? membersOf(value) : undefined
    if (inner !== undefined) eachColumn(inner, note, [...outer, name])
    else note(outer.length === 0 ? name : [...outer, name].join('.'), value)
  }
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const members = Array.isArray(value) ? { ...value.slice(0, 1) } : { ...value }
  return Object.keys(members).length > 0 ? members : undefined
}

/** The value of a column, or else at the path, where a text may stand for an array of one. */
export function valueAt(row: unknown, column: string): unknown {
  const members = Object(row)
  if (Object.hasOwn(members, column)) return plainValue(members[column])
  let value = row
  for (const name of column.split('.')) {
    if (typeof value === 'string' && name === '0') continue
    if (typeof value === 'string' || !Object.hasOwn(Object(value), name)) return undefined
    value = Object(value)[name]
  }
  return plainValue(value)
}

/** The value of MongoDB's Extended JSON, of which an object has one member. Any other value stays as it is. */
function plainValue(value: unknown): unknown {
  if (!isObject(value)) return value
  const [name, inner] = onlyMember(value)
  if (name === '$oid') return inner
  if (name !== '$date') return plainNumber(value)
  const at = plainNumber(inner)
  const time = new Date(typeof at === 'object' ? Number.NaN : (at as string | number))
  return Number.isNaN(time.getTime()) ? at : time.toISOString()
}

function plainNumber(value: unknown): unknown {
  const [name = '', inner] = onlyMember(value)
  const isNumber = /^\$number(?:Long|Int|Double)$/.test(name) && typeof inner !== 'object'
  return isNumber ? Number(inner) : value
}

function onlyMember(value: unknown): readonly [name?: string, value?: unknown] {
  const [name, ...others] = isObject(value) ? Object.keys(value) : []
  return name === undefined || others.length > 0 ? [] : [name, Object(value)[name]]
}
