import type { UserQuery, UserSelection } from '../../users/user-repository.ts'
import { SELECT_IS_INDEXED } from './index-next-users.ts'
import {
  afterSql,
  conditionsOf,
  filtersOf,
  filterValues,
  orderOf,
  positionOf,
  type References,
  SORT_COLUMNS,
  whereSql,
} from './list-sql.ts'
import { REPRESENTATION, representationOf, SELECT_REVISION } from './user-reads.ts'

/** The row of a search. If `walked` equals the reach, the page may lack users. */
export type SearchRow = readonly [
  json: string,
  length: number,
  /** The sort key of the last user within the limit. */
  lastKey: string | null,
  revision: string,
  total: number | null,
  /** The users found, up to the end of the page. */
  found: number,
  /** The users walked by, if the page is not full. */
  walked: number | null,
  allUsers: number,
  isIndexed: boolean,
]

/**
 * Walks by up to this many users in the order of the list, and skips those without the words; or gathers all users with the
 * words and then sorts them.
 */
export type Reach = number | 'gather'

/** Users with words: those after a place, if one is given. */
type Search = UserSelection & Partial<Pick<UserQuery, 'start'>>

/** PostgreSQL begins with the words or with the filters, whichever find fewer users. */
const MATCHES = `users JOIN users_words USING (id)`

const HAS_WORDS = 'words @@ $1::tsquery'

/** The statement for one page. Its parameters are `searchValuesOf`. */
export function searchStatement(query: UserQuery, reach: Reach): string {
  const { sort, limit, withTotal } = query
  const { offset } = offsetOf(query)
  const counted = filtersOf(query).length === 0 ? 'users_words' : MATCHES
  const all = `SELECT count(*) FROM ${counted}${whereSql([HAS_WORDS, ...filterConditions(query)])}`
  const lastKey = sort.by === 'id' ? 'NULL' : `(array_agg(sort_key ORDER BY place))[${limit}]`
  const walked =
    reach === 'gather'
      ? 'NULL::bigint'
      : `CASE WHEN count(*) <= ${limit} THEN (SELECT count(*) FROM (${walkedSql(query, reach)}) AS walked) END`
  // Only of a whole page, because counting may read many users.
  const isWhole = reach === 'gather' ? 'true' : `(count(*) > ${limit} OR ${walked} < ${reach})`
  const total = withTotal ? `CASE WHEN ${isWhole} THEN (${all}) END` : 'NULL::bigint'
  return `
    WITH found AS MATERIALIZED (
      SELECT id, ${SORT_COLUMNS[sort.by]} AS sort_key FROM ${sourceSql(query, reach)}
      ORDER BY ${orderOf(query.sort)} LIMIT ${offset + limit + 1}
    )
    SELECT '[' || coalesce(string_agg(${representationOf('shown_users')}, ',' ORDER BY place), '') || ']', count(*),
      ${lastKey}, (${SELECT_REVISION}), ${total}, (SELECT count(*) FROM found), ${walked},
      (SELECT coalesce(sum(user_count), 0)::bigint FROM users_summary), (${SELECT_IS_INDEXED})
    FROM (
      SELECT page.id, page.sort_key, page.place, shown
      FROM (SELECT id, sort_key, row_number() OVER () AS place FROM found OFFSET ${offset}) AS page
        CROSS JOIN LATERAL (SELECT shown FROM users WHERE users.id = page.id OFFSET 0) AS json
    ) AS shown_users`
}

/** The statement for all users that match. */
export function searchAllStatement(query: UserSelection): string {
  const conditions = [HAS_WORDS, ...filterConditions(query)]
  // Planned on its own, so that PostgreSQL does not read all users in their order to find few.
  const found = `SELECT users.* FROM ${MATCHES}${whereSql(conditions)} OFFSET 0`
  return `SELECT ${REPRESENTATION} FROM (${found}) AS users ORDER BY ${orderOf(query.sort)}`
}

/** The values of the parameters. Words hold only letters, marks and digits, so nothing in them means anything to `tsquery`. */
export function searchValuesOf(query: Search): readonly unknown[] {
  const values: Record<string, unknown> = { ...filterValues(query.filters), ...query.start }
  const words = query.words.map(word => `'${word}':*`).join(' & ')
  return [words, ...parametersOf(query).map(name => values[name])]
}

/** The same text for queries with the same statement. */
export function searchFormOf(query: UserQuery, reach: Reach): string {
  const { sort, limit, withTotal } = query
  const { offset, isAfter } = offsetOf(query)
  return `${Object.values(sort)} ${filtersOf(query)} ${limit} ${offset} ${isAfter} ${withTotal} ${reach}`
}

export function offsetOf({ start = { offset: 0 } }: Search) {
  return 'offset' in start ? { offset: start.offset, isAfter: false } : { offset: 0, isAfter: true }
}

function parametersOf(query: Search): readonly string[] {
  return [...filtersOf(query), ...(offsetOf(query).isAfter ? positionOf(query.sort) : [])]
}

/** `$1` is the words. */
function referencesOf(query: Search): References {
  return Object.fromEntries(parametersOf(query).map((name, index) => [name, `$${index + 2}`]))
}

function filterConditions(query: Search): readonly string[] {
  return conditionsOf(filtersOf(query), referencesOf(query))
}

function sourceSql(query: UserQuery, reach: Reach): string {
  if (reach === 'gather') return gatherSql(query)
  const conditions = filterConditions(query)
  const isById = query.sort.by === 'id'
  const [walked, looked] = isById
    ? ['users_words', conditions.length > 0 ? 'users' : undefined]
    : ['users', 'users_words']
  // OFFSET 0 makes PostgreSQL look up one user after the other, so that it can stop at the end of the page.
  const others =
    looked === undefined
      ? ''
      : `CROSS JOIN LATERAL (SELECT ${columnsOf(looked)} FROM ${looked} WHERE ${looked}.id = walked.id OFFSET 0) AS looked`
  const walk = walkedSql(query, reach, `id, ${columnsOf(walked)}`)
  return `(${walk}) AS walked ${others}${whereSql([HAS_WORDS, ...conditions])}`
}

function walkedSql(query: UserQuery, reach: number, columns = ''): string {
  const table = query.sort.by === 'id' ? 'users_words' : 'users'
  return `SELECT ${columns} FROM ${table}${whereSql(placeConditions(query))} ORDER BY ${orderOf(query.sort)} LIMIT ${reach}`
}

function gatherSql(query: UserQuery): string {
  const conditions = filterConditions(query)
  const isById = query.sort.by === 'id'
  const source = isById && conditions.length === 0 ? 'users_words' : MATCHES
  const columns = source === MATCHES ? columnsOf('users') : columnsOf('users_words')
  const all = [HAS_WORDS, ...afterConditions(query), ...conditions]
  // Planned on its own, so that PostgreSQL does not read the whole list in its order to find few users.
  return `(SELECT id, ${columns} FROM ${source}${whereSql(all)} OFFSET 0) AS gathered`
}

function columnsOf(table: string): string {
  return table === 'users_words' ? 'words' : 'name_lower, email_lower, created_at, updated_at'
}

/** Where a walk begins and ends: the position, and filters of the column that the list is sorted by. */
function placeConditions(query: UserQuery): readonly string[] {
  const column = SORT_COLUMNS[query.sort.by]
  const conditions = filterConditions(query)
  const ofColumn = conditions.filter(condition => condition.startsWith(`${column} `))
  return [...afterConditions(query), ...ofColumn]
}

function afterConditions(query: UserQuery): readonly string[] {
  return offsetOf(query).isAfter ? [afterSql(query.sort, referencesOf(query))] : []
}
