import { SORT_KEYS, type UserSort } from '../../src/users/user-repository.ts'

export interface ShownUser {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly created_at: string
  readonly updated_at: string
}

/** The order of a sort, computed independently of any storage. */
export function byCodePoints({ by, descending }: UserSort) {
  const keyOf = (user: ShownUser) => Buffer.from(String(user[by]).toLowerCase())
  return (one: ShownUser, other: ShownUser) => {
    const order = by === 'id' ? 0 : Buffer.compare(keyOf(one), keyOf(other))
    return (order || one.id - other.id) * (descending ? -1 : 1)
  }
}

/** Each sort in both directions. */
export const SORTS: readonly UserSort[] = SORT_KEYS.flatMap(by =>
  [false, true].map(descending => ({ by, descending })),
)

/** The place right after a user in a sort. */
export function positionOf(user: ShownUser, { by }: UserSort) {
  const text = String(user[by])
  return { key: by === 'id' ? '' : by.endsWith('_at') ? text : text.toLowerCase(), id: user.id }
}
