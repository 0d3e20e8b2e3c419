import { beforeAll, expect, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import {
  countSql,
  indexedFiltersOf,
  listStatement,
  matchesSql,
} from '../../../src/storage/sqlite/user-list-sql.ts'
import { SORT_KEYS, type UserFilters, type UserQuery } from '../../../src/users/user-repository.ts'

let database: Database
beforeAll(async () => {
  database = await openSqlite({ path: ':memory:', now: Date.now })
  return () => void database.close()
})

const NOON = '2026-01-31T12:00:00.000Z'

const FILTERS: readonly UserFilters[] = [
  {},
  { email: 'ann@example.com' },
  { name: 'ann' },
  { created_after: NOON },
  { created_after: NOON, created_before: NOON },
  { updated_before: NOON },
  { updated_after: NOON, updated_before: NOON },
]

const STARTS: readonly UserQuery['start'][] = [{ offset: 0 }, { key: 'm', id: 5 }]

const SORTS = SORT_KEYS.flatMap(by => [
  { by, descending: false },
  { by, descending: true },
])

function planOf(sql: string, parameters: object): string {
  const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(parameters)
  return (steps as { detail: string }[]).map(({ detail }) => detail).join('\n')
}

/** What reads all users, even if only from an index. */
const SCAN = /^SCAN users\b/m

/** The first page of all users begins at one end of this index, and stops at its limit. */
function scanOf({ by }: UserQuery['sort']): RegExp {
  if (by === 'id') return /^SCAN users$/m
  const index = by === 'email' ? 'users_email_unique' : `users_by_${by}`
  return new RegExp(`^SCAN users USING (COVERING )?INDEX ${index}$`, 'm')
}

const QUERIES = FILTERS.flatMap(filters =>
  SORTS.flatMap(sort =>
    STARTS.map(start => ({ filters, sort, start, words: [], limit: 100, withTotal: false })),
  ),
)

const CASES = QUERIES.map(query => [JSON.stringify(query), query] as const)

test.each(CASES)(
  '%s is read from an index, and sorted only where docs/performance.md says so',
  (_, query) => {
    const { filters, sort, start } = query
    const parameters = { ...filters, limit: 100, offset: 0, ...start }
    /** The time by which a list is filtered, and not sorted. */
    const range = indexedFiltersOf(filters).find(by => by !== 'name' && by !== sort.by)
    const plan = planOf(listStatement(query, range).sql(), parameters)
    if (range !== undefined) {
      expect(plan).toContain(`USING INDEX users_by_${range}`)
      expect(planOf(matchesSql(filters, range), { ...parameters, most: 9 })).not.toMatch(SCAN)
    } else {
      const isOneNameInAnotherOrder =
        filters.name !== undefined && !['id', 'name'].includes(sort.by)
      expect(plan.includes('TEMP B-TREE'), plan).toBe(isOneNameInAnotherOrder)
    }
    const isWholeList = Object.keys(filters).length === 0 && 'offset' in start
    if (isWholeList) expect(plan).toMatch(scanOf(sort))
    else expect(plan).not.toMatch(SCAN)
  },
)

test.each(FILTERS.slice(1))('a count of %o reads the index of its filter', filters => {
  const names = Object.keys(filters) as (keyof UserFilters)[]
  expect(planOf(countSql(names), filters)).not.toMatch(SCAN)
})
