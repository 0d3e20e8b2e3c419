import type { Position, UserFilters, UserQuery, UserSort } from '../../users/user-repository.ts'
import { MAX_NAME_CHARS } from '../../users/user-schemas.ts'
import { comparePositions } from './compare-positions.ts'

/** A read of an index of a column, in the order of its keys and then of ids. */
export interface Walk {
  readonly column: UserSort['by']
  readonly descending: boolean
  /** Whether that is the order of the list. */
  readonly isInOrder: boolean
  /** Where to begin: after this place, or at the first user. */
  readonly from?: Position | undefined
  /** Whether only users with the key of `from` are candidates. */
  readonly isPoint?: boolean
  /** Whether no user with this key of the column or after it is a candidate. */
  readonly isPast?: ((key: string) => boolean) | undefined
}

/** Before the first id. */
export const NO_ID = 0

/** After the last id. */
const END_ID = Number.MAX_SAFE_INTEGER + 1

const RANGES = {
  created_at: { after: 'created_after', before: 'created_before' },
  updated_at: { after: 'updated_after', before: 'updated_before' },
} as const

const RANGE_COLUMNS = ['created_at', 'updated_at'] as const

/** Greater than any name, e-mail or time: no character is greater, and no name is longer. */
const AFTER_ALL_KEYS = '\u{10ffff}'.repeat(MAX_NAME_CHARS + 1)

/** Where a walk begins: after this place. */
export function firstPlaceOf({ from, descending }: Walk): Position {
  return from ?? (descending ? { key: AFTER_ALL_KEYS, id: END_ID } : { key: '', id: NO_ID })
}

/** No two users have the same e-mail. So whoever has that of a position by now is not after it, with any id. */
export function pastEmail(query: UserQuery): UserQuery {
  const { sort, start } = query
  if (sort.by !== 'email' || 'offset' in start) return query
  return { ...query, start: { key: start.key, id: sort.descending ? NO_ID : END_ID } }
}

/** The same list, but it begins no earlier than the range of its own order: SQLite would read all users up to the range. */
export function fromRangeOn(query: UserQuery): UserQuery {
  const { sort, start } = query
  const column = RANGE_COLUMNS.find(column => column === sort.by)
  if (column === undefined || 'offset' in start) return query
  return { ...query, start: walkOfRange(query, column).from ?? start }
}

/** The ways to read all users that match the filters: those of filters, and one in the order of the list. */
export function walksOf(query: UserQuery): readonly Walk[] {
  const { sort, filters } = query
  const ofName = filters.name === undefined ? [] : [walkOfName(query, filters.name)]
  const columns = RANGE_COLUMNS.filter(column => column === sort.by || hasRange(filters, column))
  const ofRanges = columns.map(column => walkOfRange(query, column))
  const walks = [...ofName, ...ofRanges]
  return walks.some(({ isInOrder }) => isInOrder) ? walks : [...walks, walkInOrder(query)]
}

/** One user at most. */
export function walkOfEmail(email: string): Walk {
  const from = { key: email, id: NO_ID }
  return { column: 'email', descending: false, isInOrder: false, from, isPoint: true }
}

/** All users with a name are in the order of their ids. */
function walkOfName({ sort, start }: UserQuery, name: string): Walk {
  const isInOrder = sort.by === 'id' || sort.by === 'name'
  const descending = isInOrder && sort.descending
  const first = { key: name, id: descending ? END_ID : NO_ID }
  const position = isInOrder && 'id' in start ? start : undefined
  const place = position && { key: sort.by === 'id' ? name : position.key, id: position.id }
  const from = place ? laterOf(first, place, descending) : first
  // A list by name that is past this name has no more users.
  const isPast = (key: string) => key !== name
  return { column: 'name', descending, isInOrder, from, isPoint: true, isPast }
}

function walkOfRange({ sort, filters, start }: UserQuery, column: keyof typeof RANGES): Walk {
  const isInOrder = sort.by === column
  const descending = isInOrder && sort.descending
  const after = filters[RANGES[column].after]
  const before = filters[RANGES[column].before]
  // Bounds are exclusive.
  const [bound, end] = descending ? [before, after] : [after, before]
  const first = bound === undefined ? undefined : { key: bound, id: descending ? NO_ID : END_ID }
  const position = isInOrder && 'id' in start ? start : undefined
  const from = first && position ? laterOf(first, position, descending) : (position ?? first)
  const isPast =
    end === undefined ? undefined : (key: string) => (descending ? key <= end : key >= end)
  return { column, descending, isInOrder, from, isPast }
}

function walkInOrder({ sort, start }: UserQuery): Walk {
  const from = 'id' in start ? start : undefined
  return { column: sort.by, descending: sort.descending, isInOrder: true, from }
}

function hasRange(filters: UserFilters, column: keyof typeof RANGES): boolean {
  const { after, before } = RANGES[column]
  return filters[after] !== undefined || filters[before] !== undefined
}

function laterOf(one: Position, other: Position, descending: boolean): Position {
  const isLater = comparePositions(other, one) * (descending ? -1 : 1) > 0
  return isLater ? other : one
}
