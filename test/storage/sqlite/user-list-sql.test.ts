import { beforeAll, expect, test } from 'vitest'
import {
  type FilterIndex,
  indexesOf,
  isPageOfIndex,
} from '../../../src/storage/sqlite/list-plan.ts'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import { countFewSql, listStatement } from '../../../src/storage/sqlite/user-list-sql.ts'
import { SORT_KEYS, type UserFilters, type UserQuery } from '../../../src/users/user-repository.ts'
import { ALL } from '../../support/user-scan.ts'

let database: Database
beforeAll(async () => {
  database = await openSqlite({ path: ':memory:', now: Date.now })
  database.function('is_in_time', () => 1)
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
    const planBy = (isLong: boolean, index?: FilterIndex) =>
      planOf(listStatement(query, { isLong, index }).sql(), parameters)
    const isWholeList = Object.keys(filters).length === 0 && 'offset' in start
    const [index] = indexesOf(filters)
    if (isPageOfIndex(query)) {
      const plan = planBy(false)
      expect(plan).not.toContain('TEMP B-TREE')
      if (isWholeList) expect(plan).toMatch(scanOf(sort))
      else expect(plan).not.toMatch(SCAN)
      return
    }
    const few = planBy(true, index)
    expect(few).toContain(`USING INDEX users_by_${index}`)
    expect(few).not.toMatch(SCAN)
    const many = planBy(true)
    expect(many).not.toContain('TEMP B-TREE')
    if ('offset' in start) expect(many).toMatch(scanOf(sort))
    else expect(many).not.toMatch(SCAN)
  },
)

test.each(FILTERS.slice(1))('a count of %o reads the index of its filter', filters => {
  expect(planOf(countFewSql(filters), { ...filters, most: 9 })).not.toMatch(SCAN)
  const query = { ...ALL, filters, limit: 1, start: { key: '', id: 0 } }
  const sql = listStatement(query, { isLong: true }).sql()
  expect(planOf(sql, { ...filters, key: '', id: 0, limit: 1, offset: 0 })).not.toMatch(SCAN)
})
