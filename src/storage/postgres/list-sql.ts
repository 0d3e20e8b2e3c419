import { lastIdOf, withoutLastUser } from '../../users/stored-user.ts'
import type {
  UserFilters,
  UserPage,
  UserQuery,
  UserSelection,
  UserSort,
} from '../../users/user-repository.ts'
import {
  FILTER_COLUMNS,
  type FilterName,
  indexesOf,
  isPageOfIndex,
  MAX_SORTED_USERS,
  namesOf,
  soughtOf,
} from '../list-plan.ts'
import { REPRESENTATION, representationOf, SELECT_REVISION } from './user-reads.ts'

/** The column that each sort orders by. It is the first column of an index that ends in the id. */
const SORT_COLUMNS: Readonly<Record<UserSort['by'], string>> = {
  id: 'id',
  name: 'name_lower',
  email: 'email_lower',
  created_at: 'created_at',
  updated_at: 'updated_at',
}

/** What a user must match. */
export type Criterion = FilterName | 'words'

/** Whether few users with the words are read, all of them, or users in an order until a page is full. */
type Read = 'few' | 'all' | 'ordered'

const HAS_WORDS = 'words @@ @words::tsquery'

const IDS_WITH_WORDS = `SELECT id FROM users_words WHERE ${HAS_WORDS}`

const WORDS: Readonly<Record<Read, string>> = {
  few: `id = ANY (ARRAY(${IDS_WITH_WORDS}))`,
  all: `id IN (${IDS_WITH_WORDS})`,
  // Within `coalesce` PostgreSQL takes it for true of every other user, otherwise of almost none, and reads and sorts all.
  ordered: `coalesce((SELECT ${HAS_WORDS} FROM users_words WHERE users_words.id = users.id), false)`,
}

/** The condition of each filter. */
const FILTERS: Readonly<Record<FilterName, string>> = {
  ids: 'id = ANY (@ids::bigint[])',
  emails: 'email_lower = ANY (@emails::text[])',
  name: 'name_lower = @name',
  created_after: 'created_at > @created_after',
  created_before: 'created_at < @created_before',
  updated_after: 'updated_at > @updated_after',
  updated_before: 'updated_at < @updated_before',
}

/** As a range, of which only the index of names has the order. Users of one name have the order of any index for PostgreSQL. */
const IN_NAMES = 'name_lower >= @name AND name_lower <= @name'

/** Looking at the words of this many users takes a tenth of a second. */
const WALKED_USERS = 20_000

/** Looking at the words of twice as many takes about a millisecond. */
const SAMPLE_USERS = 500

/** Skipping this many users takes about a millisecond. */
const MAX_SHORT_OFFSET = 1000

/** SQL and the values of its parameters. */
export interface ListStatement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** The statement of SQL whose parameters have names, as in `@name`. */
function statementOf(sql: string, values: Readonly<Record<string, unknown>>): ListStatement {
  const names: string[] = []
  const text = sql.replace(/@([a-z_]+)/g, (_, name: string) => {
    if (!names.includes(name)) names.push(name)
    return `$${names.indexOf(name) + 1}`
  })
  return { text, values: names.map(name => values[name]) }
}

/** The row of a page. `lastKey` is the sort key of the last user within the limit. */
export type ListRow = readonly [
  json: string,
  length: number,
  lastKey: string | null,
  revision: string,
  total: number | null,
]

/** Whether a page reads few users, whatever the values are. After a cursor of another name it may skip all users between the two. */
export function isShort(query: UserQuery): boolean {
  const { sort, filters, start } = query
  const isOfOtherName = sort.by === 'name' && 'key' in start && start.key !== filters.name
  return isPageOfIndex(query, MAX_SHORT_OFFSET) && !(isOfOtherName && filters.name !== undefined)
}

/** The statement for a page. The users of the criteria `foundFirst` are found first and then sorted. */
export function pageStatement(
  query: UserQuery,
  foundFirst: readonly Criterion[] = fewOf(query),
): ListStatement {
  const { sort, limit, withTotal } = query
  const lastKey = sort.by === 'id' ? 'NULL' : `(array_agg(sort_key))[${limit}]`
  const total = withTotal ? `(${countSql(query, foundFirst)})` : 'NULL::bigint'
  const sql = `
    SELECT '[' || coalesce(string_agg(${representationOf('shown_users')}, ','), '') || ']', count(*), ${lastKey},
      (${SELECT_REVISION}), ${total}
    FROM (${rowsSql(query, foundFirst)}) AS shown_users`
  return statementOf(sql, { ...valuesOf(query), ...query.start })
}

/** The page of a row, which has one user more than the limit if more follow. */
export function toPage(row: ListRow, { limit }: UserQuery): UserPage {
  const [json, length, lastKey, revision, total] = row
  const hasMore = length > limit
  const page = hasMore ? withoutLastUser(json) : json
  return {
    json: page,
    next: hasMore ? { key: lastKey ?? '', id: lastIdOf(page) } : undefined,
    total: total ?? undefined,
    revision,
  }
}

/** The statement for all users that match. */
export function walkStatement(
  selection: UserSelection,
  foundFirst: readonly Criterion[],
): ListStatement {
  const { source, conditions } = sourceOf(selection, foundFirst, 'ordered')
  const order = orderOf(selection.sort)
  const sql = `SELECT ${REPRESENTATION} FROM ${source}${whereSql(conditions)} ORDER BY ${order}`
  return statementOf(sql, valuesOf(selection))
}

/**
 * What to count before a list is made: the users with the words, and those in a range of another column than the list is
 * sorted by. No index gives them in the order of the list. If they are few, it is faster to find them and sort them. If they
 * are many, it is faster to read the list in its order and skip the users that do not match.
 */
export function criteriaToCount({
  sort,
  filters,
  words,
}: UserSelection): readonly (readonly Criterion[])[] {
  const names = namesOf(filters)
  if (names.some(name => ['ids', 'emails', 'name'].includes(name))) return []
  const indexes = indexesOf(filters)
  const counted = indexes.some(index => index === sort.by) ? [] : indexes.slice(0, 1)
  return [
    ...(words.length > 0 ? [['words'] as const] : []),
    ...counted.map(index => names.filter(name => FILTER_COLUMNS[name] === index)),
  ]
}

/**
 * Counts the users that match some criteria, up to one more than MAX_SORTED_USERS. Words that many of the first and of the
 * last users have are not counted: their index would give all users with them before the first is counted.
 */
export function countStatement(
  selection: UserSelection,
  criteria: readonly Criterion[],
): ListStatement {
  const most = MAX_SORTED_USERS + 1
  const hasWords = criteria.includes('words')
  const rows = hasWords
    ? `users_words WHERE ${HAS_WORDS}`
    : `users${whereSql(conditionsOf(criteria, 'all'))}`
  const count = `SELECT count(*) FROM (SELECT FROM ${rows} LIMIT ${most}) AS matches`
  const [first, last] = ['ASC', 'DESC'].map(
    direction => `(
      SELECT count(*) FROM (SELECT words FROM users_words ORDER BY id ${direction} LIMIT ${SAMPLE_USERS}) AS sample
      WHERE ${HAS_WORDS})`,
  )
  const areMany = `least(${first}, ${last}) > ${SAMPLE_USERS / 10}`
  const sql = hasWords ? `SELECT CASE WHEN ${areMany} THEN ${most} ELSE (${count}) END` : count
  return statementOf(sql, valuesOf(selection))
}

/** The criterion that names few users, if there is one. */
export function fewOf({ filters }: UserSelection): readonly Criterion[] {
  return [soughtOf(namesOf(filters)) ?? []].flat()
}

/** Whether the users with the words may all be far from the beginning of the order, and nothing else says where they are. */
export function areWordsFar(
  { filters, words }: UserSelection,
  foundFirst: readonly Criterion[],
): boolean {
  return foundFirst.length === 0 && words.length > 0 && filters.name === undefined
}

function criteriaOf({ filters, words }: UserSelection): readonly Criterion[] {
  return words.length > 0 ? ['words', ...namesOf(filters)] : namesOf(filters)
}

/** Words hold only letters, marks and digits, so nothing in them means anything to `tsquery`. */
function valuesOf({ filters, words }: UserSelection): Partial<Record<Criterion, unknown>> {
  const { name, emails } = filters
  return {
    ...filters,
    name: name && withoutNul(name),
    emails: emails?.map(withoutNul),
    words: words.map(word => `'${word}':*`).join(' & '),
  }
}

/** PostgreSQL takes no text with NUL. No user has a control character in name or e-mail. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '\u0001')
}

function rowsSql(query: UserQuery, foundFirst: readonly Criterion[]): string {
  const { filters, limit, start } = query
  const isOfIndex = isShort(query)
  const isInNames = isOfIndex && foundFirst.length === 0 && filters.name !== undefined
  const sort = isInNames ? { ...query.sort, by: 'name' as const } : query.sort
  const { source, conditions } = sourceOf(query, foundFirst, 'ordered')
  const after = 'offset' in start ? [] : [afterSql(sort, filters, isInNames ? '@name' : '@key')]
  const order = `ORDER BY ${orderOf(sort)}`
  const next = `(SELECT ${LISTED} FROM users${whereSql(after)} ${order} LIMIT ${WALKED_USERS}) AS users`
  const found = areWordsFar(query, foundFirst)
    ? next + whereSql(conditions)
    : source + whereSql([...after, ...(isInNames ? [IN_NAMES] : conditions)])
  const rows = `SELECT id, shown, ${SORT_COLUMNS[query.sort.by]} AS sort_key FROM ${found} ${order}`
  const most = limit + 1
  if (!('offset' in start) || start.offset === 0) return `${rows} LIMIT ${most}`
  if (!isOfIndex) return `${rows} LIMIT ${most} OFFSET @offset`
  // For an unknown OFFSET alone, PostgreSQL plans as if it were a tenth of the table.
  const near = `${rows} LIMIT ${MAX_SHORT_OFFSET + most}`
  return `SELECT * FROM (${near}) AS near LIMIT ${most} OFFSET @offset`
}

/** Counts the users that match. */
function countSql(query: UserQuery, foundFirst: readonly Criterion[]): string {
  const criteria = criteriaOf(query)
  if (criteria.length === 0) return 'SELECT sum(user_count)::bigint FROM users_summary'
  if (String(criteria) === 'words') return `SELECT count(*) FROM users_words WHERE ${HAS_WORDS}`
  const { source, conditions } = sourceOf(query, foundFirst, 'all')
  return `SELECT count(*) FROM ${source}${whereSql(conditions)}`
}

/** All columns that a list needs. */
const LISTED = 'id, name_lower, email_lower, created_at, updated_at, shown'

/** What the users are read from, and the conditions that remain. */
function sourceOf(selection: UserSelection, foundFirst: readonly Criterion[], read: Read) {
  const others = criteriaOf(selection).filter(name => !foundFirst.includes(name))
  const first = whereSql(conditionsOf(foundFirst, 'few'))
  // Planned on its own, so that PostgreSQL does not read the whole list in its order to find few users.
  const few = `(SELECT ${LISTED} FROM users${first} OFFSET 0) AS users`
  return {
    source: foundFirst.length === 0 ? 'users' : few,
    conditions: conditionsOf(others, read),
  }
}

/** The columns of an order. No two users have the same e-mail, so their ids never decide it. */
function columnsOf({ by }: UserSort): readonly string[] {
  return by === 'id' || by === 'email' ? [SORT_COLUMNS[by]] : [SORT_COLUMNS[by], 'id']
}

/** What follows ORDER BY. */
function orderOf(sort: UserSort): string {
  const direction = sort.descending ? 'DESC' : 'ASC'
  return columnsOf(sort)
    .map(column => `${column} ${direction}`)
    .join(', ')
}

/**
 * The condition for users after a position, which begins at the bound of the order if that is further: PostgreSQL would read all
 * users between the two.
 */
function afterSql(sort: UserSort, filters: UserFilters, position: string): string {
  const { by, descending } = sort
  const bound = `${by.replace('_at', '')}_${descending ? 'before' : 'after'}` as FilterName
  const further = `${descending ? 'least' : 'greatest'}(${position}, @${bound})`
  const key = filters[bound] === undefined ? position : further
  const values = columnsOf(sort).map(column => (column === 'id' ? '@id' : key))
  return `(${columnsOf(sort)}) ${descending ? '<' : '>'} (${values})`
}

function conditionsOf(criteria: readonly Criterion[], read: Read): readonly string[] {
  return criteria.map(name => (name === 'words' ? WORDS[read] : FILTERS[name]))
}

/** The WHERE clause; empty without conditions. */
function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}
