import { readWholeList } from '../../src/users/user-lists.ts'
import {
  SORT_KEYS,
  type UserFilters,
  type UserQuery,
  type UserRepository,
  type UserSort,
} from '../../src/users/user-repository.ts'
import { foldCase } from '../../src/users/user-schemas.ts'
import { wordsOfUser } from '../../src/users/words.ts'

/** The first 1000 users, and how many there are. */
export const ALL: UserQuery = {
  sort: { by: 'id', descending: false },
  filters: {},
  words: [],
  limit: 1000,
  start: { offset: 0 },
  withTotal: true,
}

export const NOON = Date.parse('2026-01-31T12:00:00.000Z')

/** A time after NOON. */
export const at = (ms: number) => new Date(NOON + ms).toISOString()

export interface ShownUser {
  readonly id: number
  readonly name: string
  readonly email: string
  readonly created_at: string
  readonly updated_at: string
}

/** Users in the order of a sort, computed independently of any storage. */
function inOrder<T extends ShownUser>(users: readonly T[], sort: UserSort): T[] {
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

/** Whether each of `asked` begins one of `words`, all of them folded. */
export function areBegun(words: readonly string[], asked: readonly string[]): boolean {
  return asked.every(beginning => words.some(word => word.startsWith(beginning)))
}

/** What to ask for, whatever the page. */
export type Asked = Pick<UserQuery, 'words' | 'filters' | 'sort'>

/**
 * The oracle of lists: returns what finds, by reading all of these users, the ids of those that are asked for, in their order. From
 * a place in that order on, if it is given.
 */
export function scanOf(users: readonly ShownUser[]) {
  const folded = new Map(users.map(user => [user, wordsOfUser(user).split(' ')]))
  const orders = new Map<string, ShownUser[]>()
  const sorted = (sort: UserSort) => {
    const order = orders.get(JSON.stringify(sort)) ?? inOrder(users, sort)
    orders.set(JSON.stringify(sort), order)
    return order
  }
  const isAsked = (user: ShownUser, { words, filters }: Asked) =>
    isFiltered(user, filters) && areBegun(folded.get(user) as readonly string[], words)
  const find = (asked: Asked, place = 0) =>
    sorted(asked.sort)
      .slice(place)
      .flatMap(user => (isAsked(user, asked) ? [user.id] : []))
  return { sorted, find }
}

type GivenFilters = { readonly [Name in keyof UserFilters]-?: NonNullable<UserFilters[Name]> }

/** Whether a user matches a filter that is given. */
const MATCHES: Readonly<
  Record<keyof UserFilters, (user: ShownUser, given: GivenFilters) => boolean>
> = {
  ids: ({ id }, { ids }) => ids.includes(id),
  emails: ({ email }, { emails }) => emails.includes(email.toLowerCase()),
  name: (user, { name }) => foldCase(user.name) === name,
  created_after: ({ created_at }, { created_after }) => created_at > created_after,
  created_before: ({ created_at }, { created_before }) => created_at < created_before,
  updated_after: ({ updated_at }, { updated_after }) => updated_at > updated_after,
  updated_before: ({ updated_at }, { updated_before }) => updated_at < updated_before,
}

const FILTER_NAMES = Object.keys(MATCHES) as (keyof UserFilters)[]

function isFiltered(user: ShownUser, filters: UserFilters): boolean {
  return FILTER_NAMES.every(
    name => filters[name] === undefined || MATCHES[name](user, filters as GivenFilters),
  )
}

export function idsOf(json: string): number[] {
  return JSON.parse(json).map(({ id }: { id: number }) => id)
}

/** The ids of a whole list. */
export async function idsOfWhole(
  users: Pick<UserRepository, 'scan'>,
  asked: Pick<UserQuery, 'words' | 'filters'>,
): Promise<number[]> {
  const found: number[] = []
  for await (const { lines } of readWholeList(users, asked)) {
    found.push(...idsOf(`[${lines.trimEnd().replaceAll('\n', ',')}]`))
  }
  return found
}
