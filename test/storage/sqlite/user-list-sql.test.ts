import { beforeAll, expect, test } from 'vitest'
import { openSqlite } from '../../../src/storage/sqlite/open-sqlite.ts'
import type { Database } from '../../../src/storage/sqlite/sqlite-driver.ts'
import {
  countSql,
  type IndexedFilter,
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
  { created_before: NOON },
  { created_after: NOON, created_before: NOON },
  { updated_after: NOON },
  { updated_before: NOON },
  { updated_after: NOON, updated_before: NOON },
]

const STARTS: readonly UserQuery['start'][] = [{ offset: 0 }, { key: 'm', id: 5 }]

const QUERIES = SORT_KEYS.flatMap(by =>
  [false, true].flatMap(descending =>
    FILTERS.flatMap(filters =>
      STARTS.map(start => ({
        sort: { by, descending },
        filters,
        words: [],
        start,
        limit: 100,
        withTotal: false,
      })),
    ),
  ),
)

/** The combinations without an index, as listed in docs/performance.md. */
function isOneNameInAnotherOrder({ sort, filters }: UserQuery): boolean {
  return filters.name !== undefined && !['id', 'name'].includes(sort.by)
}

function nameOf({ sort, filters, start }: UserQuery): string {
  const filter = Object.keys(filters).join(' and ') || 'nothing'
  const place = 'offset' in start ? 'at the start' : 'behind a cursor'
  return `${filter} by ${sort.descending ? '-' : ''}${sort.by} ${place}`
}

function planOf(sql: string, parameters: object): string[] {
  const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(parameters)
  return (steps as { detail: string }[]).map(({ detail }) => detail)
}

function inOrderOf({ sort }: UserQuery): string {
  if (sort.by === 'id') return 'SCAN users'
  return `SCAN users USING INDEX ${sort.by === 'email' ? 'users_email_unique' : `users_by_${sort.by}`}`
}

/** Steps of a query plan that do not search an index. */
function scansOf(plan: readonly string[]): string[] {
  return plan.filter(step => /^SCAN users\b/.test(step)).map(step => step.replace('COVERING ', ''))
}

/** The time by which a list is filtered, and not sorted. */
function rangeIndex({ sort, filters }: UserQuery): IndexedFilter | undefined {
  return indexedFiltersOf(filters).find(by => by !== 'name' && by !== sort.by)
}

const inOrder = QUERIES.filter(query => rangeIndex(query) === undefined)

const ofRange = QUERIES.flatMap(query => {
  const index = rangeIndex(query)
  return index === undefined ? [] : [[nameOf(query), query, index] as const]
})

test.each(inOrder.map(query => [nameOf(query), query] as const))(
  'a page by %s is read from an index in its order',
  (_name, query) => {
    const parameters = { ...query.filters, limit: 100, offset: 0, ...query.start }
    const plan = planOf(listStatement(query).sql(), parameters)
    const isSorted = plan.some(step => step.includes('TEMP B-TREE'))
    expect(isSorted, plan.join('\n')).toBe(isOneNameInAnotherOrder(query))
    const isWholeList = Object.keys(query.filters).length === 0 && 'offset' in query.start
    // The first page of all users begins at one end of an index and stops at its limit.
    expect(scansOf(plan)).toEqual(isWholeList ? [inOrderOf(query)] : [])
  },
)

test.each(ofRange)(
  'a page by %s is sorted from the time range if that has few users',
  (_name, query, index) => {
    const parameters = { ...query.filters, limit: 100, offset: 0, ...query.start }
    const few = planOf(listStatement(query, index).sql(), parameters)
    expect(few.join('\n')).toContain(`USING INDEX users_by_${index}`)
    expect(scansOf(few)).toEqual([])
    const countSteps = planOf(matchesSql(query.filters, index), {
      ...parameters,
      most: 9,
    })
    expect(scansOf(countSteps)).toEqual([])
  },
)

test.each(FILTERS.filter(filters => Object.keys(filters).length > 0))(
  'a count of %o reads the index of its filter',
  filters => {
    expect(
      scansOf(planOf(countSql(Object.keys(filters) as (keyof UserFilters)[]), filters)),
    ).toEqual([])
  },
)

test('a page of a time range in another order is the same, sorted or skipped through', () => {
  const insert = database.prepare(`
    INSERT INTO users (name, name_lower, email, created_at, updated_at)
    VALUES (@name, @name, @email, @time, @time)`)
  for (let count = 0; count < 200; count++) {
    const time = new Date(Date.parse(NOON) + ((count * 37) % 200)).toISOString()
    insert.run({ name: `name ${(count * 71) % 50}`, email: `u${count}@example.com`, time })
  }
  const filters = { created_after: new Date(Date.parse(NOON) + 50).toISOString() }
  for (const query of QUERIES) {
    if (query.sort.by === 'created_at') continue
    const ranged = { ...query, filters }
    const start =
      'offset' in query.start
        ? query.start
        : { key: query.sort.descending ? 'name 3' : 'name 2', id: 90 }
    const parameters = { ...filters, limit: 20, offset: 0, ...start }
    const byRange = listStatement({ ...ranged, start }, rangeIndex(ranged)).sql()
    const byOrder = listStatement({ ...ranged, start }).sql()
    expect(rangeIndex(ranged)).toBe('created_at')
    const sorted = database.prepare(byRange).all(parameters)
    expect(sorted).toEqual(database.prepare(byOrder).all(parameters))
  }
})

test('listStatement has one form for each text of its SQL', () => {
  const queries = QUERIES.flatMap(query => [query, { ...query, withTotal: true }])
  const texts = queries.map(query => listStatement(query).sql())
  const forms = queries.map(query => listStatement(query).form)
  expect(new Set(forms).size).toBe(new Set(texts).size)
  expect(new Set(forms.map((form, index) => form + texts[index])).size).toBe(new Set(forms).size)
  for (const query of queries) {
    const filters = { ...query.filters, email: query.filters.email }
    expect(listStatement({ ...query, filters }).form).toBe(listStatement(query).form)
  }
  for (const [, query, index] of ofRange) {
    expect(listStatement(query, index).form).not.toBe(listStatement(query).form)
  }
})
