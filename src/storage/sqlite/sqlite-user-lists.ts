import type { UserQuery, UserReads } from '../../users/user-repository.ts'
import { createCallGate, through } from '../call-gate.ts'
import {
  anyOf,
  COMPARISONS,
  type Criterion,
  columnsOf,
  countFew,
  FILTER_COLUMNS,
  type FilterName,
  isInOrder,
  type ListDialect,
  namesOf,
  rangesOf,
  SORT_COLUMNS,
  type Source,
  startOf,
  whereSql,
} from '../list-dialect.ts'
import { createListPrograms, MAX_LIST_MS } from '../list-programs.ts'
import { type Program, runAtOnce, runAwaited } from '../programs.ts'
import { type LongKind, type LongLists, steadyMs } from './long-reads.ts'
import { createStatementRunner, numbered, type SqliteParts } from './sqlite-statements.ts'
import { HAS_ID, REPRESENTATION, SELECT_REVISION } from './sqlite-user-reads.ts'

const SORT_KEYS = { ...SORT_COLUMNS, email: 'lower(email)' }

const listed = (name: 'ids' | 'emails') => `(SELECT value FROM json_each(@${name}))`

/** Of one user. For words without their index: each of `asked` begins one of its words. */
const CONDITIONS: Readonly<Record<Criterion, string>> = {
  ids: `id IN ${listed('ids')}`,
  emails: `lower(email) IN ${listed('emails')}`,
  words: `(SELECT min(instr(' ' || words, ' ' || value)) FROM json_each(@asked)) > 0`,
  ...COMPARISONS,
}

const conditionOf = (criterion: Criterion) => CONDITIONS[criterion]

/** Throws when the time of a list is over. To call it for each user would take longer than to read the user. */
const IN_TIME = '(id % 1009 > 0 OR is_in_time())'

const WITH_WORDS = 'users_words MATCH @words'

const INDEXED_USERS = 'users_words CROSS JOIN users ON users.id = users_words.rowid'

/** Lists in the SQL of SQLite. Those that may read many users call `is_in_time`. */
export const sqliteListDialect: ListDialect = {
  maxSkipped: 10_000,
  sortKeys: SORT_KEYS,
  hasId: HAS_ID,
  columns: 'id, name, email, created_at, updated_at',
  json: `json_group_array(${REPRESENTATION})`,
  selectRevision: SELECT_REVISION,
  lines: `group_concat(${REPRESENTATION} || char(10), '')`,
  digests: 'json_group_array(password_digest)',

  valuesOf: ({ filters, words }) => {
    const { ids, emails, ...others } = filters
    const lists = { ids: JSON.stringify(ids), emails: JSON.stringify(emails) }
    return { ...others, ...lists, words: matchOf(words), asked: JSON.stringify(words) }
  },

  // The index of words finds enough users for a page, and its users are not counted.
  criteriaToCount: ({ filters, words }) => (words.length > 0 ? [] : rangesOf(filters)),

  selectCount: criteria =>
    criteria.includes('words')
      ? countFew('users_words', [WITH_WORDS, '(rowid % 1009 > 0 OR is_in_time())'])
      : countFew('users', criteria.map(conditionOf)),

  // The limit keeps SQLite from making one query of this and the one around it, for which it could choose another index.
  selectFew: criteria =>
    criteria.includes('words')
      ? `SELECT users.* FROM ${INDEXED_USERS} WHERE ${WITH_WORDS} LIMIT -1`
      : `SELECT * FROM ${withIndex(criteria)}${whereSql(criteria.map(conditionOf))} LIMIT -1`,

  testOf: conditionOf,

  placeOf: query => ({
    order: columnsOf(query.sort.by, SORT_KEYS[query.sort.by]),
    ranges: rangesAfter(query),
  }),

  inOrder: (query, isShort) => {
    const { sort, filters, words } = query
    const names = namesOf(filters)
    if (words.length > 0) {
      // The index of words gives users in the order of ids, so that the first ones are enough for a page.
      const order = columnsOf(sort.by, SORT_KEYS[sort.by], 'users_words.rowid')
      // FTS5 seeks only to an integer, and better-sqlite3 binds numbers as floating point.
      const ranges = rangesAfter(query, ['users_words.rowid', 'CAST(@id AS INTEGER)'])
      return { ...withWords(names), order, ranges: [anyOf(ranges)] }
    }
    // A plus keeps SQLite from finding and sorting all users of a filter where the first few of the list fill the page.
    const checks = names.map(name => `${isInOrder(name, sort) ? '' : '+'}${conditionOf(name)}`)
    const conditions = isShort ? checks : [IN_TIME, ...checks]
    return { from: 'users', conditions, ...sqliteListDialect.placeOf(query) }
  },

  matching: ({ filters, words }) => {
    const names = namesOf(filters)
    if (words.length > 0) return withWords(names)
    // Looking up many users of an index takes longer than reading the whole table.
    const from = rangesOf(filters).length > 1 ? 'users NOT INDEXED' : 'users'
    return { from, conditions: [IN_TIME, ...names.map(conditionOf)] }
  },

  areWordsFar: () => false,

  // better-sqlite3 binds numbers as floating point.
  lastKeyOf: () => 'json_group_array(sort_key) ->> CAST(@limit - 1 AS INTEGER)',

  cut: rows => `${rows} LIMIT @limit + 1 OFFSET @offset`,
}

/** The time is asked first, because SQLite asks no further once a condition does not hold. */
function withWords(names: readonly FilterName[]): Source {
  const conditions = [IN_TIME, WITH_WORDS, ...names.map(conditionOf)]
  return { from: INDEXED_USERS, conditions }
}

/** SQLite finds users by their ids and e-mails by itself. */
function withIndex([name]: readonly Criterion[]): string {
  if (name === 'ids' || name === 'emails') return 'users'
  return `users INDEXED BY users_by_${FILTER_COLUMNS[name as FilterName]}`
}

/** The conditions of what comes after the start: any of them holds. */
function rangesAfter(
  { sort, filters, start }: UserQuery,
  [idColumn, startId] = ['id', '@id'],
): readonly string[] {
  if ('offset' in start) return ['true']
  const beyond = sort.descending ? '<' : '>'
  const afterId = `${idColumn} ${beyond} ${startId}`
  if (sort.by === 'id') return [afterId]
  const key = SORT_KEYS[sort.by]
  const afterKey = `${key} ${beyond} ${startOf(sort, filters, { least: 'min', greatest: 'max' })}`
  // For (key, id) > (@key, @id) SQLite seeks by the first column only, and would read all users with the same name.
  return sort.by === 'email' ? [afterKey] : [`${key} = @key AND ${afterId}`, afterKey]
}

/** The expression of FTS5 for users whose words begin with all of `asked`. */
function matchOf(asked: readonly string[]): string {
  // Words have only letters, marks and digits, so nothing in them means anything to FTS5.
  return asked.map(word => `"${word}"*`).join(' AND ')
}

/** Long lists. More would wait too long: one of them may take seconds. */
const MAX_WAITING = 20

const lists = createListPrograms(sqliteListDialect)

/**
 * Lists of the table `users` of SQLite, each in one statement. One that reads few users takes less than a millisecond, and is
 * read at once. The caller closes `longLists`, before the database.
 */
export function createSqliteUserLists(
  { database, view }: Pick<SqliteParts, 'database' | 'view'>,
  longLists: LongLists,
): Pick<UserReads, 'list' | 'scan'> {
  const query = createStatementRunner(database)
  const readAtOnce = <T>(program: Program<T>) => view.read(() => runAtOnce(program, query))
  const listLong = through(createCallGate(MAX_WAITING), (asked: UserQuery) =>
    runLong('page', lists.readLong(asked)),
  )

  function runLong<T>(kind: LongKind, program: Program<T>): Promise<T> {
    const deadline = steadyMs() + MAX_LIST_MS
    return runAwaited(program, (sql, values) =>
      longLists.rows(kind, { sql, values: numbered(values), deadline }),
    )
  }

  return {
    list: async asked =>
      lists.isShort(asked) ? readAtOnce(lists.readShort(asked)) : listLong(asked),

    scan: scan => runLong('part', lists.scan(scan)),
  }
}
