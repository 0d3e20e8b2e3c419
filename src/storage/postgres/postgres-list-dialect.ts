import type { UserQuery, UserSelection, UserSort } from '../../users/user-repository.ts'
import {
  COMPARISONS,
  columnsOf,
  countFew,
  type ListDialect,
  orderOf,
  type PageSource,
  type Reading,
  SORT_COLUMNS,
  type Source,
  startOf,
  whereSql,
} from '../list-dialect.ts'
import {
  type Criterion,
  criteriaOf,
  type FilterName,
  indexesOf,
  MAX_SORTED_USERS,
} from '../list-plan.ts'
import { REPRESENTATION, representationOf, SELECT_REVISION } from './user-reads.ts'

const SORT_KEYS = { ...SORT_COLUMNS, email: 'email_lower' }

/** Whether all users with the words are found, or users are read in an order until a page is full. */
type Read = 'found' | 'ordered'

const HAS_WORDS = 'words @@ @words::tsquery'

const WORDS: Readonly<Record<Read, string>> = {
  found: HAS_WORDS,
  // Within `coalesce` PostgreSQL takes it for true of every other user, otherwise of almost none, and reads and sorts all.
  ordered: `coalesce(${HAS_WORDS}, false)`,
}

/** The condition of each filter. */
const FILTERS: Readonly<Record<FilterName, string>> = {
  ids: 'id = ANY (@ids::bigint[])',
  emails: 'email_lower = ANY (@emails::text[])',
  ...COMPARISONS,
}

/** As a range, of which only the index of names has the order. Users of one name have the order of any index for PostgreSQL. */
const IN_NAMES = 'name_lower >= @name AND name_lower <= @name'

/** All columns that a list needs. */
const LISTED = 'id, name_lower, email_lower, words, created_at, updated_at, shown'

/** Looking at the words of this many users takes a tenth of a second. */
const WALKED_USERS = 20_000

/** Looking at the words of twice as many takes about a millisecond. */
const SAMPLE_USERS = 500

const MAX_SHORT_OFFSET = 1000

/** Lists in the SQL of PostgreSQL. */
export const postgresListDialect: ListDialect = {
  maxSkipped: MAX_SHORT_OFFSET,
  sortKeys: SORT_KEYS,
  columns: 'id, shown',
  json: `'[' || coalesce(string_agg(${representationOf('page')}, ','), '') || ']'`,
  selectRevision: SELECT_REVISION,
  scanned: `${LISTED}, password_digest`,
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

  selectFew: criteria =>
    criteria.includes('words')
      ? SELECT_FEW_WITH_WORDS
      : countFew('users', conditionsOf(criteria, 'found')),

  // As an array: PostgreSQL does not know that they are few.
  isAmong: criteria =>
    `id = ANY (ARRAY(SELECT id FROM users${whereSql(conditionsOf(criteria, 'found'))}))`,

  testOf: criterion => conditionsOf([criterion], 'ordered')[0] as string,

  pageOf,

  matchesOf: reading => matching(reading, 'found'),

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
const SELECT_FEW_WITH_WORDS = `
  SELECT CASE WHEN least(${FIRST_WITH_WORDS}, ${LAST_WITH_WORDS}) <= ${SAMPLE_USERS / 10}
    THEN (${countFew('users', [HAS_WORDS])}) ELSE ${MAX_SORTED_USERS + 1} END`

function areWordsFar({ filters, words }: UserSelection, first: readonly Criterion[]): boolean {
  return first.length === 0 && words.length > 0 && filters.name === undefined
}

function pageOf(reading: Reading): PageSource {
  const { asked, first, isShort } = reading
  // The index of a name has its users in the order of their ids, whatever the sort.
  if (isShort && first.length === 0 && asked.filters.name !== undefined) {
    const place = placeOf(asked, { ...asked.sort, by: 'name' }, '@name')
    return { from: 'users', conditions: [IN_NAMES], ...place }
  }
  const page = { ...matching(reading, 'ordered'), ...placeOf(asked, asked.sort) }
  return areWordsFar(asked, first) ? amongNext(asked, page) : page
}

/** What has the users of `first`, and the conditions of the other criteria. */
function matching({ asked, first }: Reading, read: Read): Source {
  const others = criteriaOf(asked).filter(name => !first.includes(name))
  // Planned on its own, so that PostgreSQL does not read the whole list in its order to find few users.
  const few = `(SELECT ${LISTED} FROM users${whereSql(conditionsOf(first, 'found'))} OFFSET 0) AS users`
  return { from: first.length === 0 ? 'users' : few, conditions: conditionsOf(others, read) }
}

/** The columns of a sort, and the condition of what comes after the start. */
function placeOf({ filters, start }: UserQuery, sort: UserSort, startKey = '@key') {
  const order = columnsOf(sort.by, SORT_KEYS[sort.by])
  if ('offset' in start) return { order, ranges: ['true'] }
  const key = startOf(sort, filters, { least: 'least', greatest: 'greatest', key: startKey })
  const position = order.map(column => (column === 'id' ? '@id' : key))
  return { order, ranges: [`(${order}) ${sort.descending ? '<' : '>'} (${position})`] }
}

/** The same page, of which only the next users in its order are looked at. */
function amongNext({ sort }: UserQuery, page: PageSource): PageSource {
  const inOrder = `${whereSql(page.ranges)} ORDER BY ${orderOf(page.order, sort)}`
  const next = `SELECT ${LISTED} FROM users${inOrder} LIMIT ${WALKED_USERS}`
  return { ...page, from: `(${next}) AS users`, ranges: ['true'] }
}

function conditionsOf(criteria: readonly Criterion[], read: Read): readonly string[] {
  return criteria.map(name => (name === 'words' ? WORDS[read] : FILTERS[name]))
}
