import type { UserSort } from '../../users/user-repository.ts'
import {
  conditionsOf,
  type FilterName,
  SELECT_REVISION,
  SHOWN_COLUMNS,
  SORT_EXPRESSIONS,
} from './user-list-sql.ts'
import { REPRESENTATION } from './user-representation.ts'

/**
 * A user that may match: `sortKey` is that of the sort of the list, and `walkKey` that of the index that it was read from.
 * Texts are null, and `isInFilters` is 0, for a user that the index of words has and the table has not.
 */
export type Candidate = readonly [
  id: number,
  sortKey: string,
  name: string,
  email: string,
  /** Whether it matches the filters. */
  isInFilters: 0 | 1,
  walkKey: string,
]

/** All that the SQL for candidates depends on. */
export interface CandidateShape {
  readonly sortBy: UserSort['by']
  readonly filters: readonly FilterName[]
  readonly descending: boolean
  /** Whether name and e-mail are needed to see whether a user has the words. */
  readonly hasText: boolean
}

/** The indexes of `users` by a column. */
const INDEXES: Readonly<Record<Exclude<UserSort['by'], 'id'>, string>> = {
  name: 'users_by_name',
  email: 'users_email_unique',
  created_at: 'users_by_created_at',
  updated_at: 'users_by_updated_at',
}

/**
 * Up to `@count` candidates in the order of a column, after the position `@key` and `@id`; `isPoint` for that key only. In the
 * order of ids all keys are empty.
 */
export function walkCandidatesSql(
  shape: CandidateShape,
  { column, isPoint }: { readonly column: UserSort['by']; readonly isPoint: boolean },
): string {
  const { descending } = shape
  const [beyond, direction] = descending ? ['<', 'DESC'] : ['>', 'ASC']
  if (column === 'id') {
    return `
    SELECT id, ${candidateColumns(shape)}, '' AS walk_key
    FROM users WHERE id ${beyond} @id ORDER BY id ${direction} LIMIT @count`
  }
  const key = SORT_EXPRESSIONS[column]
  // For (key, id) > (@key, @id) SQLite seeks by the first column only, and would read all users with the same key.
  const conditions = [`${key} = @key AND id ${beyond} @id`, `${key} ${beyond} @key`]
  const parts = (isPoint ? conditions.slice(0, 1) : conditions).map(
    condition => `
    SELECT id, ${candidateColumns(shape)}, ${key} AS walk_key
    FROM users INDEXED BY ${INDEXES[column]} WHERE ${condition}`,
  )
  return `${parts.join(' UNION ALL ')} ORDER BY walk_key ${direction}, id ${direction} LIMIT @count`
}

/** All columns of a candidate but the first and the last one. */
export function candidateColumns({ sortBy, filters, hasText }: CandidateShape): string {
  const sortKey = sortBy === 'id' ? "''" : SORT_EXPRESSIONS[sortBy]
  return `${sortKey} AS sort_key, ${hasText ? 'name, email' : "'', ''"}, ${['users.id IS NOT NULL', ...conditionsOf(filters)].join(' AND ')} AS is_in_filters`
}

/** The one row of a list: the users of the JSON array `@ids`, in its order. */
export const SELECT_PAGE = `
  SELECT json_group_array(${REPRESENTATION}), count(*), (${SELECT_REVISION})
  FROM (
    SELECT users.${SHOWN_COLUMNS.replaceAll(', ', ', users.')}
    FROM json_each(@ids) AS found CROSS JOIN users ON users.id = found.value ORDER BY found.key)`
