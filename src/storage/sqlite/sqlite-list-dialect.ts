import {
  COMPARISONS,
  columnsOf,
  countFew,
  type ListDialect,
  type Reading,
  SORT_COLUMNS,
  type Source,
  startOf,
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
import { REPRESENTATION, SELECT_REVISION } from './sqlite-user-rows.ts'
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

/** Looks only at these users of the index of words. */
const HAS_ROWID = {
  ids: `users_words.rowid IN ${listed('ids')}`,
  emails: `users_words.rowid IN (SELECT id FROM users WHERE lower(email) IN ${listed('emails')})`,
}

/** Throws when the time of a list is over. To call it for each user would take longer than to read the user. */
const IN_TIME = '(users.id % 1009 > 0 OR is_in_time())'

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

  selectIds: criteria =>
    criteria.includes('words')
      ? WITH_WORDS
      : `SELECT id FROM users${indexOf(criteria)} WHERE ${criteria.map(conditionOf).join(' AND ')}`,

  testOf: criterion => (criterion === 'words' ? HAS_WORDS : conditionOf(criterion)),

  sourceOf,

  areWordsFar: () => false,

  // better-sqlite3 binds numbers as floating point.
  lastKeyOf: () => 'json_group_array(sort_key) ->> CAST(@limit - 1 AS INTEGER)',

  cut: rows => `${rows} LIMIT @limit + 1 OFFSET @offset`,
}

function sourceOf(reading: Reading): Source {
  const { asked, isShort } = reading
  const { sort, filters, words } = asked
  const hasWords = words.length > 0
  const names = namesOf(filters)
  const checks = names.filter(name => !isFound(name, reading)).map(conditionOf)
  const found = names
    .filter(name => isFound(name, reading))
    .map(name => (hasWords ? HAS_ROWID[name as 'ids' | 'emails'] : conditionOf(name)))
  // A plus keeps SQLite from finding and sorting all users of a filter where the first few of the list fill the page.
  const others = checks.map(check => (hasWords ? check : `+${check}`))
  const isTimed = hasWords || !isShort
  return {
    from: hasWords
      ? 'users_words CROSS JOIN users ON users.id = users_words.rowid'
      : `users${indexedSql(reading)}`,
    conditions: [
      // First, because SQLite asks no further once a condition does not hold.
      ...(isTimed ? [IN_TIME] : []),
      ...(hasWords ? ['users_words MATCH @words'] : []),
      ...found,
      ...others,
    ],
    ranges: rangesAfter(asked),
    // The index of words gives users in the order of ids, so that the first ones are enough for a page.
    order: columnsOf(sort.by, SORT_KEYS[sort.by], hasWords ? 'users_words.rowid' : 'id'),
  }
}

/** Whether the users of a filter are found by an index: that of the first ones, or one that has the order of the list. */
function isFound(name: FilterName, { asked, purpose, first }: Reading): boolean {
  if (first.includes(name)) return true
  if (asked.words.length > 0 || fewOf(asked).length > 0) return false
  return isInOrder(name, asked.sort) || (purpose === 'count' && first.length === 0)
}

function indexedSql({ asked, purpose, first }: Reading): string {
  const [name] = first
  if (name === undefined) {
    // Looking up many users of an index takes longer than reading the whole table.
    const hasMany = purpose === 'count' && rangesOf(asked.filters).length > 1
    return hasMany ? ' NOT INDEXED' : ''
  }
  return indexOf(first)
}

/** SQLite finds users by their ids and e-mails by itself. */
function indexOf([name]: readonly Criterion[]): string {
  if (name === 'ids' || name === 'emails') return ''
  return ` INDEXED BY users_by_${FILTER_COLUMNS[name as FilterName]}`
}

function rangesAfter(asked: Reading['asked']): Source['ranges'] {
  const { sort, filters, words, start } = asked
  if ('offset' in start) return [[]]
  const beyond = sort.descending ? '<' : '>'
  const hasWords = words.length > 0
  // FTS5 seeks only to an integer, and better-sqlite3 binds numbers as floating point.
  if (sort.by === 'id' && hasWords) return [[`users_words.rowid ${beyond} CAST(@id AS INTEGER)`]]
  const plus = fewOf(asked).length > 0 && !hasWords ? '+' : ''
  const afterId = `${plus}id ${beyond} @id`
  if (sort.by === 'id') return [[afterId]]
  const key = `${plus}${SORT_KEYS[sort.by]}`
  const afterKey = `${key} ${beyond} ${startOf(sort, filters, { least: 'min', greatest: 'max' })}`
  if (sort.by === 'email') return [[afterKey]]
  // For (key, id) > (@key, @id) SQLite seeks by the first column only, and would read all users with the same name.
  const sameKey = [`${key} = @key`, afterId]
  return hasWords ? [[`(${sameKey.join(' AND ')} OR ${afterKey})`]] : [sameKey, [afterKey]]
}

function conditionOf(criterion: Criterion): string {
  return FILTERS[criterion as FilterName]
}
