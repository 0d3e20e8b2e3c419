import type { UserQuery, UserSelection, UserSort } from '../../users/user-repository.ts'
import {
  COMPARISONS,
  type Criterion,
  columnsOf,
  countFew,
  criteriaOf,
  type FilterName,
  indexesOf,
  type ListDialect,
  MAX_SORTED_USERS,
  orderOf,
  type Place,
  SORT_COLUMNS,
  startOf,
  whereSql,
} from '../list-dialect.ts'
import { REPRESENTATION, representationOf, SELECT_REVISION } from './user-reads.ts'

const SORT_KEYS = { ...SORT_COLUMNS, email: 'email_lower' }

const HAS_WORDS = 'words @@ @words::tsquery'

/** Within `coalesce` PostgreSQL takes it for true of every other user, otherwise of almost none, and reads and sorts all. */
const TESTED_WORDS = `coalesce(${HAS_WORDS}, false)`

/** The condition of each filter. */
const FILTERS: Readonly<Record<FilterName, string>> = {
  ids: 'id = ANY (@ids::bigint[])',
  emails: 'email_lower = ANY (@emails::text[])',
  ...COMPARISONS,
}

/** As a range, of which only the index of names has the order. Users of one name have the order of any index for PostgreSQL. */
const IN_NAMES = 'name_lower >= @name AND name_lower <= @name'

/** All columns that a list needs. */
const LISTED = 'id, name_lower, email_lower, words, password_digest, created_at, updated_at, shown'

/** Looking at the words of this many users takes a tenth of a second. */
const WALKED_USERS = 20_000

/** Looking at the words of twice as many takes about a millisecond. */
const SAMPLE_USERS = 500

const MAX_SHORT_OFFSET = 1000

/** Lists in the SQL of PostgreSQL. */
export const postgresListDialect: ListDialect = {
  maxSkipped: MAX_SHORT_OFFSET,
  sortKeys: SORT_KEYS,
  // A constraint of the table.
  hasId: 'true',
  columns: 'id, shown',
  json: `'[' || coalesce(string_agg(${representationOf('page')}, ','), '') || ']'`,
  selectRevision: SELECT_REVISION,
  lines: `string_agg(${REPRESENTATION} || E'\\n', '')`,
  digests: 'json_agg(password_digest)::text',

  // PostgreSQL takes no text with NUL. No user has a control character in name or e-mail. Words hold only letters, marks and
  // digits, so nothing in them means anything to `tsquery`.
  valuesOf: ({ filters, words }) => ({
    ...filters,
    name: filters.name?.replaceAll('\0', '\u0001'),
    emails: filters.emails?.map(email => email.replaceAll('\0', '\u0001')),
    words: words.map(word => `'${word}':*`).join(' & '),
  }),

  criteriaToCount: asking => (asking.filters.name === undefined ? indexesOf(asking) : []),

  selectCount: criteria =>
    criteria.includes('words') ? SELECT_COUNT_WITH_WORDS : countFew('users', criteria.map(foundOf)),

  // With an offset it is planned on its own, so that PostgreSQL does not read the whole list in its order to find few users.
  selectFew: criteria => `SELECT ${LISTED} FROM users${whereSql(criteria.map(foundOf))} OFFSET 0`,

  testOf,

  placeOf: query => placeOf(query, query.sort),

  inOrder: (query, isShort) => {
    const { sort, filters } = query
    // The index of a name has its users in the order of their ids, whatever the sort.
    if (isShort && filters.name !== undefined) {
      const place = placeOf(query, { ...sort, by: 'name' }, '@name')
      return { from: 'users', conditions: [IN_NAMES], ...place }
    }
    const place = placeOf(query, sort)
    const conditions = criteriaOf(query).map(testOf)
    if (!areWordsFar(query, [])) return { from: 'users', conditions, ...place }
    // Only the next users in its order are looked at.
    const inOrder = `${whereSql(place.ranges)} ORDER BY ${orderOf(place.order, sort)}`
    const next = `SELECT ${LISTED} FROM users${inOrder} LIMIT ${WALKED_USERS}`
    return { from: `(${next}) AS users`, conditions, order: place.order, ranges: ['true'] }
  },

  matching: query => ({ from: 'users', conditions: criteriaOf(query).map(foundOf) }),

  areWordsFar,

  lastKeyOf: ({ limit }) => `(array_agg(sort_key))[${limit}]`,

  cut: (rows, { limit, start }, isShort) => {
    const most = limit + 1
    if (!('offset' in start) || start.offset === 0) return `${rows} LIMIT ${most}`
    if (!isShort) return `${rows} LIMIT ${most} OFFSET @offset`
    // For an unknown OFFSET alone, PostgreSQL plans as if it were a tenth of the table.
    const near = `${rows} LIMIT ${MAX_SHORT_OFFSET + most}`
    return `SELECT * FROM (${near}) AS near LIMIT ${most} OFFSET @offset`
  },
}

const [FIRST_WITH_WORDS, LAST_WITH_WORDS] = ['ASC', 'DESC'].map(
  direction => `(
    SELECT count(*) FROM (SELECT words FROM users ORDER BY id ${direction} LIMIT ${SAMPLE_USERS}) AS sample
    WHERE ${HAS_WORDS})`,
)

/**
 * Words that many of the first and of the last users have are not counted: their index would give all users with them before
 * the first is counted.
 */
const SELECT_COUNT_WITH_WORDS = `
  SELECT CASE WHEN least(${FIRST_WITH_WORDS}, ${LAST_WITH_WORDS}) <= ${SAMPLE_USERS / 10}
    THEN (${countFew('users', [HAS_WORDS])}) ELSE ${MAX_SORTED_USERS + 1} END`

function areWordsFar({ filters, words }: UserSelection, first: readonly Criterion[]): boolean {
  return first.length === 0 && words.length > 0 && filters.name === undefined
}

function placeOf({ filters, start }: UserQuery, sort: UserSort, startKey = '@key'): Place {
  const order = columnsOf(sort.by, SORT_KEYS[sort.by])
  if ('offset' in start) return { order, ranges: ['true'] }
  const key = startOf(sort, filters, { least: 'least', greatest: 'greatest', key: startKey })
  const position = order.map(column => (column === 'id' ? '@id' : key))
  return { order, ranges: [`(${order}) ${sort.descending ? '<' : '>'} (${position})`] }
}

/** The condition by which an index finds users. */
function foundOf(criterion: Criterion): string {
  return criterion === 'words' ? HAS_WORDS : FILTERS[criterion]
}

function testOf(criterion: Criterion): string {
  return criterion === 'words' ? TESTED_WORDS : FILTERS[criterion]
}
