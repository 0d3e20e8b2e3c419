import type { UserQuery } from '../../src/users/user-repository.ts'
import { wordsOfUser } from '../../src/users/words.ts'
import type { ShownUser } from './user-order.ts'

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

/** Whether each of `asked` begins one of `words`, all of them folded. */
export function areBegun(words: readonly string[], asked: readonly string[]): boolean {
  return asked.every(beginning => words.some(word => word.startsWith(beginning)))
}

/** Whether a user has the words and matches the filters, computed independently of any storage. */
export function isAsked(
  user: ShownUser,
  { filters, words }: Pick<UserQuery, 'words' | 'filters'>,
): boolean {
  return (
    areBegun(wordsOfUser(user), words) &&
    (filters.name === undefined || user.name.toLowerCase() === filters.name) &&
    (filters.ids === undefined || filters.ids.includes(user.id)) &&
    (filters.emails === undefined || filters.emails.includes(user.email)) &&
    (filters.created_after === undefined || user.created_at > filters.created_after) &&
    (filters.created_before === undefined || user.created_at < filters.created_before) &&
    (filters.updated_after === undefined || user.updated_at > filters.updated_after) &&
    (filters.updated_before === undefined || user.updated_at < filters.updated_before)
  )
}

export function idsOf(json: string): number[] {
  return JSON.parse(json).map(({ id }: { id: number }) => id)
}
