import { lastIdOf, withoutLastUser } from '../../users/stored-user.ts'
import type {
  UserFilters,
  UserPage,
  UserQuery,
  UserSelection,
  UserSort,
} from '../../users/user-repository.ts'
import { ARE_WORDS_INDEXED } from '../index-next-users.ts'
import {
  FILTER_COLUMNS,
  type FilterIndex,
  type FilterName,
  indexesOf,
  isInOrder,
  namesOf,
  soughtOf,
} from '../list-plan.ts'
import { REPRESENTATION } from './sqlite-user-rows.ts'

export const SELECT_REVISION = `
  SELECT lists_id || '-' || revision FROM users_summary WHERE singleton = 1`

const SHOWN_COLUMNS = 'id, name, email, created_at, updated_at'

/** The expression that each sort orders by. Each is the first column of an index. */
const SORT_EXPRESSIONS: Readonly<Record<UserSort['by'], string>> = {
  id: 'id',
  name: 'name_lower',
  email: 'lower(email)',
  created_at: 'created_at',
  updated_at: 'updated_at',
}

/** The one row of a list. */
export type ListRow = readonly [
  json: string,
  length: number,
  revision: string,
  total: number | null,
  /** JSON array of the sort keys of the users; null in the order of ids. */
  keys: string | null,
  areWordsIndexed: 0 | 1,
]

/** All that the SQL of a list depends on. */
interface ListShape {
  readonly by: UserSort['by']
  readonly descending: boolean
  readonly isAfterPosition: boolean
  readonly withTotal: boolean
  readonly hasWords: boolean
  readonly filters: readonly FilterName[]
  /** Whether it may read many users. Then it calls `is_in_time` and, if it has words, has the parameter `match`. */
  readonly isLong: boolean
  /** If set, the users are found by the index of this filter, and all of them sorted. */
  readonly index?: FilterIndex | undefined
}

/** SQL for a JSON array as a list. */
const listed = (name: 'ids' | 'emails') => `(SELECT value FROM json_each(@${name}))`

const SOUGHT_IDS = {
  ids: listed('ids'),
  emails: `(SELECT id FROM users WHERE lower(email) IN ${listed('emails')})`,
}

/** Throws when the time of a list is over. To call it for each user would take longer than to read the user. */
const IN_TIME = '(users.id % 1009 > 0 OR is_in_time())'

/**
 * The statement for a page. Its one row has up to one user more than the limit, and the other parts of a list. Its
 * parameters are the filters, `key`, `id`, `limit` and `offset`. `form` identifies the text that `sql` returns, and takes
 * less time to make.
 */
export function listStatement(
  { sort, filters, start, withTotal, words }: UserQuery,
  { isLong, index }: Pick<ListShape, 'isLong' | 'index'>,
): { readonly form: string; readonly sql: () => string } {
  const shape: ListShape = {
    ...sort,
    isAfterPosition: !('offset' in start),
    withTotal,
    hasWords: words.length > 0,
    isLong,
    index,
    filters: namesOf(filters),
  }
  return { form: Object.values(shape).join(' '), sql: () => listSql(shape) }
}

/** The parameters of the filters. */
export function filterValues({ ids, emails, ...others }: UserFilters) {
  return { ...others, ids: JSON.stringify(ids), emails: JSON.stringify(emails) }
}

/** The page of a row. */
export function pageOf(row: ListRow, { limit }: UserQuery): UserPage {
  const [json, length, revision, count, keys] = row
  const total = count ?? undefined
  if (length <= limit) return { json, next: undefined, total, revision }
  const page = withoutLastUser(json)
  const key: string = keys === null ? '' : JSON.parse(keys)[limit - 1]
  return { json: page, next: { key, id: lastIdOf(page) }, total, revision }
}

/**
 * The statement for all users that match, each as a row: its JSON, or null from time to time so that a walk to the next user
 * that matches can be interrupted. Its parameters are the filters and, if there are words, `match`.
 */
export function walkSql(selection: UserSelection, index: FilterIndex | undefined): string {
  const { sort, words } = selection
  const filters = namesOf(selection.filters)
  const hasWords = words.length > 0
  const sought = soughtOf(filters)
  const isSought = (name: FilterName) =>
    name === sought || (!hasWords && isFoundInOrder(name, { by: sort.by, index, sought }))
  const checks = filters.filter(name => !isSought(name)).map(conditionOf)
  const user =
    checks.length === 0 ? REPRESENTATION : `iif(${checks.join(' AND ')}, ${REPRESENTATION}, NULL)`
  const seen = checks.length === 0 ? [] : [`(${checks.join(' AND ')} OR users.id % 1009 = 0)`]
  const found = filters.filter(isSought)
  const source = hasWords
    ? foundSql(found, seen)
    : `FROM users${indexedSql(index)}${whereSql([...found.map(conditionOf), ...seen])}`
  const id = hasWords ? 'users_words.rowid' : 'id'
  const key = sort.by === 'id' ? '' : `${SORT_EXPRESSIONS[sort.by]} ${directionOf(sort)}, `
  return `SELECT ${user} ${source} ORDER BY ${key}${id} ${directionOf(sort)}`
}

/** Its row has the number of users of each index of the filters, but at most `@most`. */
export function countFewSql(filters: UserFilters): string {
  const counts = indexesOf(filters).map(index => {
    const conditions = namesOf(filters).filter(name => FILTER_COLUMNS[name] === index)
    return `(SELECT count(*) FROM (SELECT 1 FROM users${whereSql(conditions.map(conditionOf))} LIMIT @most))`
  })
  return `SELECT ${counts.join(', ')}`
}

function listSql(shape: ListShape): string {
  const { by, withTotal, hasWords } = shape
  const keys = by === 'id' ? 'NULL' : 'json_group_array(sort_key)'
  return `
    SELECT json_group_array(${REPRESENTATION}), count(*), (${SELECT_REVISION}),
      (${withTotal ? countSql(shape) : 'NULL'}), ${keys}, (${hasWords ? ARE_WORDS_INDEXED : '1'})
    FROM (${hasWords ? searchSql(shape) : readSql(shape)} LIMIT @limit + 1 OFFSET @offset)`
}

function countSql({ hasWords, isLong, index, filters }: ListShape): string {
  if (hasWords) return `SELECT count(*) ${foundSql(filters)}`
  const sought = soughtOf(filters)
  const conditions = filters.map(
    name => `${sought === undefined || name === sought ? '' : '+'}${conditionOf(name)}`,
  )
  if (filters.length === 0) return 'SELECT user_count FROM users_summary WHERE singleton = 1'
  // Looking up many users of an index takes longer than reading the whole table.
  const hasMany = isLong && new Set(filters.map(name => FILTER_COLUMNS[name])).size > 1
  const source = index === undefined && hasMany ? ' NOT INDEXED' : indexedSql(index)
  return `SELECT count(*) FROM users${source}${whereSql([...conditions, ...(isLong ? [IN_TIME] : [])])}`
}

/** Reads users in the order of the list, or those of an index. */
function readSql(shape: ListShape): string {
  const { by, isAfterPosition, isLong, index, filters } = shape
  const sought = soughtOf(filters)
  const isSought = (name: FilterName) => isFoundInOrder(name, { by, index, sought })
  // A plus keeps SQLite from finding and sorting all users of a filter where the page is full after a few of the list.
  const conditions = filters.map(name => `${isSought(name) ? '' : '+'}${conditionOf(name)}`)
  const plus = sought === undefined ? '' : '+'
  const selects = (isAfterPosition ? keyset(shape) : [[]]).map(
    position =>
      `${selectSql(by)} FROM users${indexedSql(index)}` +
      whereSql([...position.map(part => plus + part), ...conditions, ...(isLong ? [IN_TIME] : [])]),
  )
  return `${selects.join(' UNION ALL ')} ORDER BY ${orderSql(shape, 'id')}`
}

/** Whether the users of a filter are found by an index that gives them in the order of the list, or are few. */
function isFoundInOrder(
  name: FilterName,
  { by, index, sought }: Pick<ListShape, 'by' | 'index'> & { sought: FilterName | undefined },
): boolean {
  const column = FILTER_COLUMNS[name]
  return sought === undefined ? column === index || isInOrder(column, by) : name === sought
}

/**
 * Finds users by their words. The index gives them in the order of ids, so that the first ones are enough for a page. For
 * another order all of them are sorted.
 */
function searchSql(shape: ListShape): string {
  const { by, descending, isAfterPosition, filters } = shape
  const beyond = descending ? '<' : '>'
  // FTS5 seeks only to an integer, and better-sqlite3 binds numbers as floating point.
  const ofId = `users_words.rowid ${beyond} CAST(@id AS INTEGER)`
  const ranges = keyset(shape).map(conditions => conditions.join(' AND '))
  const position = by === 'id' ? ofId : `(${ranges.join(' OR ')})`
  const order = orderSql({ by, descending }, 'users_words.rowid')
  return `${selectSql(by)} ${foundSql(filters, isAfterPosition ? [position] : [])} ORDER BY ${order}`
}

function foundSql(filters: readonly FilterName[], others: readonly string[] = []): string {
  const sought = soughtOf(filters)
  const conditions = [
    'users_words MATCH @match',
    // Looks only at these users of the index of words.
    ...(sought ? [`users_words.rowid IN ${SOUGHT_IDS[sought]}`] : []),
    ...filters.filter(name => name !== sought).map(conditionOf),
    ...others,
  ]
  return `FROM users_words CROSS JOIN users ON users.id = users_words.rowid
    WHERE ${[...conditions, IN_TIME].join(' AND ')}`
}

/** The conditions of the ranges that together hold all users after `@key` and `@id`. */
function keyset({ by, descending, filters }: ListShape): readonly (readonly string[])[] {
  const beyond = descending ? '<' : '>'
  const key = SORT_EXPRESSIONS[by]
  if (by === 'id') return [[`id ${beyond} @id`]]
  // No two users have the same e-mail, so ids never decide the order.
  if (by === 'email') return [[`${key} ${beyond} @key`]]
  // For (key, id) > (@key, @id) SQLite seeks by the first column only, and would read all users with the same name.
  return [
    [`${key} = @key`, `id ${beyond} @id`],
    [`${key} ${beyond} ${startOf({ by, descending, filters })}`],
  ]
}

/** Where users after `@key` begin: not before the range of that column, up to which SQLite would read all of them. */
function startOf({ by, descending, filters }: Pick<ListShape, 'by' | 'descending' | 'filters'>) {
  const bound = `${by.replace('_at', '')}_${descending ? 'before' : 'after'}` as FilterName
  return filters.includes(bound) ? `${descending ? 'min' : 'max'}(@key, @${bound})` : '@key'
}

function orderSql({ by, descending }: UserSort, id: string): string {
  const direction = directionOf({ descending })
  return by === 'id' ? `${id} ${direction}` : `sort_key ${direction}, id ${direction}`
}

function directionOf({ descending }: Pick<UserSort, 'descending'>): string {
  return descending ? 'DESC' : 'ASC'
}

function selectSql(by: UserSort['by']): string {
  return `SELECT ${SHOWN_COLUMNS}, ${by === 'id' ? "''" : SORT_EXPRESSIONS[by]} AS sort_key`
}

function conditionOf(name: FilterName): string {
  if (name === 'ids' || name === 'emails')
    return `${SORT_EXPRESSIONS[FILTER_COLUMNS[name]]} IN ${listed(name)}`
  const operator = name.endsWith('_after') ? '>' : name.endsWith('_before') ? '<' : '='
  return `${SORT_EXPRESSIONS[FILTER_COLUMNS[name]]} ${operator} @${name}`
}

function indexedSql(index: FilterIndex | undefined): string {
  return index === undefined ? '' : ` INDEXED BY users_by_${index}`
}

function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`
}
