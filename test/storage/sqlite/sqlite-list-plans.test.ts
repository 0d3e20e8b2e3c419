import { beforeAll, expect, onTestFinished, test } from 'vitest'
import {
  type Criterion,
  FILTER_COLUMNS,
  isPageOfIndex,
  rangesOf,
} from '../../../src/storage/list-dialect.ts'
import { countsStatement, pageStatement } from '../../../src/storage/list-programs.ts'
import type { Asked } from '../../../src/storage/programs.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { numbered } from '../../../src/storage/sqlite/sqlite-statements.ts'
import { sqliteListDialect } from '../../../src/storage/sqlite/sqlite-user-lists.ts'
import type { UserFilters, UserQuery } from '../../../src/users/user-repository.ts'
import { ALL, SORTS } from '../../support/user-scan.ts'

let isLate = false

let database: Database
beforeAll(async () => {
  database = await openSqlite({ path: ':memory:', now: Date.now })
  database.function('is_in_time', () => {
    if (isLate) throw new Error('late')
    return 1
  })
  return () => void database.close()
})

const NOON = '2026-01-31T12:00:00.000Z'

const FILTERS: readonly UserFilters[] = [
  {},
  { name: 'ann' },
  { created_after: NOON },
  { created_after: NOON, created_before: NOON },
  { updated_before: NOON },
  { updated_after: NOON, updated_before: NOON },
]

/** Few users are found first, whatever else is asked. */
const SOUGHT: readonly UserFilters[] = [
  { ids: [3, 5, 7] },
  { emails: ['ann@example.com', 'bob@example.com'] },
  {
    ids: [3, 5],
    emails: ['ann@example.com'],
    name: 'ann',
    created_after: NOON,
    updated_before: NOON,
  },
]

const STARTS: readonly UserQuery['start'][] = [{ offset: 0 }, { key: 'm', id: 5 }]

function planOf({ sql, values }: Asked): string {
  const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(numbered(values))
  return (steps as { detail: string }[]).map(({ detail }) => detail).join('\n')
}

function planOfPage(query: UserQuery, first?: readonly Criterion[]): string {
  return planOf(pageStatement(sqliteListDialect, query, first))
}

/** What reads all users, even if only from an index. */
const SCAN = /^SCAN users\b/m

const QUERIES = FILTERS.flatMap(filters =>
  SORTS.flatMap(sort =>
    STARTS.map(start => ({ filters, sort, start, words: [], limit: 100, withTotal: false })),
  ),
)

test.each(SOUGHT)('users of %o are found by the index of ids or e-mails in each list', filters => {
  for (const words of [[], ['ann']]) {
    for (const sort of SORTS) {
      for (const start of STARTS) {
        const query = { filters, sort, start, words, limit: 100, withTotal: true }
        expect(isPageOfIndex(query, 0)).toBe(words.length === 0)
        const plan = planOfPage(query)
        expect(plan).not.toMatch(SCAN)
        const searches = plan.match(/(?:SEARCH users |SCAN users_words VIRTUAL).*$/gm) ?? []
        const found = filters.ids
          ? 'INTEGER PRIMARY KEY (rowid=?)'
          : 'INDEX users_email_unique (<expr>=?)'
        const wanted = words.length === 0 ? found : / INDEX \d+:.*=|PRIMARY KEY|users_email_unique/
        for (const search of searches) expect(search).toMatch(wanted)
        expect(searches).not.toEqual([])
      }
    }
  }
})

const CASES = QUERIES.map(query => [JSON.stringify(query), query] as const)

test.each(CASES)(
  '%s is read from an index, and sorted only where docs/performance.md says so',
  (_, query) => {
    const { filters, start } = query
    const isWholeList = Object.keys(filters).length === 0 && 'offset' in start
    const [range = []] = rangesOf(filters)
    if (isPageOfIndex(query, 0)) {
      const plan = planOfPage(query)
      // The first page begins at one end of the index of its order, and stops at its limit.
      expect(plan).not.toContain('TEMP B-TREE')
      if (!isWholeList) expect(plan).not.toMatch(SCAN)
      return
    }
    const few = planOfPage(query, range)
    const column = FILTER_COLUMNS[range[0] ?? 'ids']
    expect(few).toContain(`USING INDEX users_by_${column}`)
    expect(few).not.toMatch(SCAN)
    const many = planOfPage(query)
    expect(many).not.toContain('TEMP B-TREE')
    if (!('offset' in start)) expect(many).not.toMatch(SCAN)
  },
)

test.each(FILTERS.slice(1))('a count of %o reads the index of its filter', filters => {
  const query = { ...ALL, filters, limit: 1, start: { key: '', id: 0 } }
  expect(planOf(countsStatement(sqliteListDialect, query, rangesOf(filters)))).not.toMatch(SCAN)
  expect(planOfPage(query)).not.toMatch(SCAN)
})

test.each([{ words: [] }, { words: ['ann'] }])(
  'a list with $words that skips all users ends at its time',
  ({ words }) => {
    const insert = `INSERT INTO users (id, name, name_lower, email, words, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)`
    const id = 1009 * (words.length + 1)
    database.prepare(insert).run(id, 'Ann', 'ann', `${id}@x.co`, 'ann', NOON, NOON)
    isLate = true
    onTestFinished(() => {
      isLate = false
    })
    const filters = { created_after: NOON, updated_before: NOON }
    for (const by of ['id', 'name', 'email'] as const) {
      const query = { ...ALL, words, filters, withTotal: false, sort: { by, descending: false } }
      const { sql, values } = pageStatement(sqliteListDialect, query)
      expect(() => database.prepare(sql).get(numbered(values))).toThrow('late')
    }
  },
)
