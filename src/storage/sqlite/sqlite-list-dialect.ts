import type { UserQuery } from '../../users/user-repository.ts'
import {
  COMPARISONS,
  columnsOf,
  countFew,
  type ListDialect,
  type Reading,
  SORT_COLUMNS,
  type Source,
  startOf,
  whereSql,
} from '../list-dialect.ts'
import {
  type Criterion,
  FILTER_COLUMNS,
  type FilterName,
  fewOf,
  isInOrder,
  MAX_SORTED_USERS,
  namesOf,
  rangesOf,
} from '../list-plan.ts'
import { REPRESENTATION, SELECT_REVISION } from './sqlite-user-reads.ts'
import { matchOf } from './sqlite-words.ts'

const SORT_KEYS = { ...SORT_COLUMNS, email: 'lower(email)' }

/** SQL for a JSON array as a list. */
const listed = (name: 'ids' | 'emails') => `(SELECT value FROM json_each(@${name}))`

/** The condition of each filter. */
const FILTERS: Readonly<Record<FilterName, string>> = {
  ids: `id IN ${listed('ids')}`,
  emails: `lower(email) IN ${listed('emails')}`,
  ...COMPARISONS,
}

type FewName = 'ids' | 'emails'

/** Looks only at these users of the index of words. */
const HAS_ROWID: Readonly<Record<FewName, string>> = {
  ids: `users_words.rowid IN ${listed('ids')}`,
  emails: `users_words.rowid IN (SELECT id FROM users WHERE lower(email) IN ${listed('emails')})`,
}

/** Throws when the time of a list is over. To call it for each user would take longer than to read the user. */
const IN_TIME = '(id % 1009 > 0 OR is_in_time())'

/** Of one user, without the index: each of `asked` begins one of its words. */
const HAS_WORDS = `(SELECT min(instr(' ' || words, ' ' || value)) FROM json_each(@asked)) > 0`

const WITH_WORDS = 'SELECT rowid FROM users_words WHERE users_words MATCH @words'

/** Lists in the SQL of SQLite. Those that may read many users call `is_in_time`. */
export const sqliteListDialect: ListDialect = {
  maxSkipped: 10_000,
  sortKeys: SORT_KEYS,
  columns: 'id, name, email, created_at, updated_at',
  json: `json_group_array(${REPRESENTATION})`,
  selectRevision: SELECT_REVISION,
  scanned: 'id, name, name_lower, email, words, password_digest, created_at, updated_at',
  lines: `group_concat(${REPRESENTATION} || char(10), '')`,
  digests: 'json_group_array(password_digest)',

  valuesOf: ({ filters, words }) => {
    const { ids, emails, ...others } = filters
    const lists = { ids: JSON.stringify(ids), emails: JSON.stringify(emails) }
    return { ...others, ...lists, words: matchOf(words), asked: JSON.stringify(words) }
  },

  // The index of words finds enough users for a page, and its users are not counted.
  criteriaToCount: ({ filters, words }) => (words.length > 0 ? [] : rangesOf(filters)),

  selectFew: criteria =>
    criteria.includes('words')
      ? `SELECT count(*) FROM (${WITH_WORDS} AND (rowid % 1009 > 0 OR is_in_time()) LIMIT ${MAX_SORTED_USERS + 1})`
      : countFew('users', criteria.map(conditionOf)),

  isAmong: criteria =>
    criteria.includes('words')
      ? `id IN (${WITH_WORDS})`
      : `id IN (SELECT id FROM ${withIndex(criteria)}${whereSql(criteria.map(conditionOf))})`,

  testOf: criterion => (criterion === 'words' ? HAS_WORDS : conditionOf(criterion)),

  pageOf: reading => {
    const { asked, first } = reading
    const { sort, words } = asked
    const hasWords = words.length > 0
    const order = columnsOf(sort.by, SORT_KEYS[sort.by], hasWords ? 'users_words.rowid' : 'id')
    const ranges = rangesAfter(asked)
    if (hasWords || first.length > 0) {
      const source = hasWords ? withWords(reading) : amongFew(reading)
      return { ...source, ranges: [`(${ranges.join(' OR ')})`], order }
    }
    // A plus keeps SQLite from finding and sorting all users of a filter where the first few of the list fill the page.
    const checks = namesOf(asked.filters).map(name =>
      isInOrder(name, sort) ? conditionOf(name) : `+${conditionOf(name)}`,
    )
    return { from: 'users', conditions: inTime(reading, checks), ranges, order }
  },

  matchesOf: reading => {
    const { asked, first } = reading
    if (asked.words.length > 0) return withWords(reading)
    if (first.length > 0) return amongFew(reading)
    // Looking up many users of an index takes longer than reading the whole table.
    const hasMany = rangesOf(asked.filters).length > 1
    const conditions = inTime(reading, namesOf(asked.filters).map(conditionOf))
    return { from: hasMany ? 'users NOT INDEXED' : 'users', conditions }
  },

  areWordsFar: () => false,

  // better-sqlite3 binds numbers as floating point.
  lastKeyOf: () => 'json_group_array(sort_key) ->> CAST(@limit - 1 AS INTEGER)',

  cut: rows => `${rows} LIMIT @limit + 1 OFFSET @offset`,
}

/** First, because SQLite asks no further once a condition does not hold. */
function inTime({ isShort }: Reading, conditions: readonly string[]): readonly string[] {
  return isShort ? conditions : [IN_TIME, ...conditions]
}

/** The index of words gives users in the order of ids, so that the first ones are enough for a page. */
function withWords(reading: Reading): Source {
  const { filters } = reading.asked
  const checks = namesOf(filters).map(name =>
    fewOf(reading.asked).includes(name as FewName) ? HAS_ROWID[name as FewName] : conditionOf(name),
  )
  return {
    from: 'users_words CROSS JOIN users ON users.id = users_words.rowid',
    conditions: inTime(reading, ['users_words MATCH @words', ...checks]),
  }
}

/** The limit keeps SQLite from making one query of the two, for which it could choose another index. */
function amongFew(reading: Reading): Source {
  const { asked, first } = reading
  const found = first.map(conditionOf)
  const others = namesOf(asked.filters).filter(name => !first.includes(name))
  return {
    from: `(SELECT * FROM ${withIndex(first)}${whereSql(found)} LIMIT -1) AS few`,
    conditions: inTime(reading, others.map(conditionOf)),
  }
}

/** SQLite finds users by their ids and e-mails by itself. */
function withIndex([name]: readonly Criterion[]): string {
  if (name === 'ids' || name === 'emails') return 'users'
  return `users INDEXED BY users_by_${FILTER_COLUMNS[name as FilterName]}`
}

/** The conditions of what comes after the start: any of them holds. */
function rangesAfter({ sort, filters, words, start }: UserQuery): readonly string[] {
  if ('offset' in start) return ['true']
  const beyond = sort.descending ? '<' : '>'
  const hasWords = words.length > 0
  const afterId = `id ${beyond} @id`
  // FTS5 seeks only to an integer, and better-sqlite3 binds numbers as floating point.
  if (sort.by === 'id')
    return [hasWords ? `users_words.rowid ${beyond} CAST(@id AS INTEGER)` : afterId]
  const key = SORT_KEYS[sort.by]
  const afterKey = `${key} ${beyond} ${startOf(sort, filters, { least: 'min', greatest: 'max' })}`
  // For (key, id) > (@key, @id) SQLite seeks by the first column only, and would read all users with the same name.
  return sort.by === 'email' ? [afterKey] : [`${key} = @key AND ${afterId}`, afterKey]
}

function conditionOf(criterion: Criterion): string {
  return FILTERS[criterion as FilterName]
}
