import type { UserSort } from '../../src/users/user-repository.ts'

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
