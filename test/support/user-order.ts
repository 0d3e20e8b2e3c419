import { SORT_KEYS, type UserSort } from '../../src/users/user-repository.ts'
import { foldCase } from '../../src/users/user-schemas.ts'

export interface ShownUser {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly created_at: string
  readonly updated_at: string
}

/** Users in the order of a sort, computed independently of any storage. */
export function inOrder<T extends ShownUser>(users: readonly T[], sort: UserSort): T[] {
  const keyed = users.map(user => ({ user, key: Buffer.from(positionOf(user, sort).key) }))
  const direction = sort.descending ? -1 : 1
  return keyed
    .sort((one, other) => {
      return (Buffer.compare(one.key, other.key) || one.user.id - other.user.id) * direction
    })
    .map(({ user }) => user)
}

/** Each sort in both directions. */
export const SORTS: readonly UserSort[] = SORT_KEYS.flatMap(by =>
  [false, true].map(descending => ({ by, descending })),
)

/** The place right after a user in a sort. */
export function positionOf(user: ShownUser, { by }: UserSort) {
  const text = String(user[by])
  const folded = by === 'name' ? foldCase(text) : text.toLowerCase()
  return { key: by === 'id' ? '' : by.endsWith('_at') ? text : folded, id: user.id }
}
