import type { UserPage, UserQuery } from '../../users/user-repository.ts'
import { type Batches, type Closing, createBatches } from './batches.ts'
import { toPage } from './list-page.ts'
import {
  countRangeStatement,
  formOf,
  type ListRow,
  type ListShape,
  MAX_SORTED_USERS,
  pageStatement,
  pagesStatement,
  rangeToCount,
  shapeOf,
  valuesOf,
} from './list-sql.ts'
import type { Connections } from './postgres-connections.ts'

/** Lists have thousands of possible forms, but clients use only few of them. The first ones are prepared. */
const MAX_PREPARED_FORMS = 100

const MAX_FORMS = 500

/** The users of all pages of one statement: about 1 MB. */
const MAX_USERS_A_STATEMENT = 5000

/** Skipping this many users takes about a millisecond. */
const MAX_SHORT_OFFSET = 1000

export interface UserListerOptions {
  readonly connections: Connections
  readonly closing: Closing
  /** Lists users that are found by words. */
  readonly search: (query: UserQuery) => Promise<UserPage>
}

/** `UserRepository.list`. Pages of one form that are asked for in one turn of the event loop share one statement. */
export function createUserLister({
  connections,
  closing,
  search,
}: UserListerOptions): (query: UserQuery) => Promise<UserPage> {
  const batchesOf = new Map<string, Batches<UserQuery, UserPage>>()
  const names = new Map<string, string>()

  function nameOf(form: string): string | undefined {
    const known = names.get(form)
    if (known !== undefined || names.size >= MAX_PREPARED_FORMS) return known
    const name = `list_${names.size}`
    names.set(form, name)
    return name
  }

  async function readPages(
    shape: ListShape,
    queries: readonly UserQuery[],
  ): Promise<readonly ListRow[]> {
    const isShort = isShortList(shape)
    const hasParameters = valuesOf(queries[0] as UserQuery, shape).length > 0
    const isAlone = queries.length === 1 || !hasParameters
    const name = isShort ? nameOf(`${isAlone} ${formOf(shape)}`) : undefined
    const text = isAlone ? pageStatement(shape) : pagesStatement(shape)
    const values = queries.map(query => valuesOf(query, shape))
    const parameters = isAlone ? values[0] : transposed(values)
    const rows = await connections.read(
      session => session.query<ListRow>({ text, ...(name && { name }) }, parameters),
      { lane: isShort ? 'short' : 'long' },
    )
    // Without parameters all pages are the same one.
    return hasParameters ? rows : queries.map(() => rows[0] as ListRow)
  }

  function createListBatches(shape: ListShape): Batches<UserQuery, UserPage> {
    return createBatches({
      closing,
      maxItems: Math.ceil(MAX_USERS_A_STATEMENT / shape.limit),
      run: async queries => {
        const rows = await readPages(shape, queries)
        return rows.map(row => ({ value: toPage(row, shape) }))
      },
    })
  }

  /** Whether it is faster to sort what is in a time range than to skip what is not. */
  async function sortedRangeOf(query: UserQuery): Promise<ListShape['sortedRange']> {
    const range = rangeToCount(query)
    if (range === undefined) return undefined
    const { statement, values } = countRangeStatement(query, range)
    const rows = await connections.read(session => session.query<[number]>(statement, values), {
      lane: 'long',
    })
    return (rows[0]?.[0] ?? 0) <= MAX_SORTED_USERS ? range : undefined
  }

  return async query => {
    if (query.words.length > 0) return search(withoutNul(query))
    const possible = withoutNul(query)
    const shape = shapeOf(possible, await sortedRangeOf(possible))
    const form = formOf(shape)
    let batches = batchesOf.get(form)
    if (batches === undefined) {
      if (batchesOf.size >= MAX_FORMS) batchesOf.clear()
      batches = createListBatches(shape)
      batchesOf.set(form, batches)
    }
    return batches.add(possible)
  }
}

/** Whether few users are read, whatever the parameters are. */
function isShortList({ filters, offset = 0 }: ListShape): boolean {
  return offset <= MAX_SHORT_OFFSET && filters.every(name => name === 'email')
}

/** PostgreSQL takes no text with NUL. No user has a control character in name or e-mail. */
export function withoutNul(query: UserQuery): UserQuery {
  const filters = Object.entries(query.filters).map(([name, text]) => [
    name,
    text?.replaceAll('\0', '\u0001'),
  ])
  return { ...query, filters: Object.fromEntries(filters) }
}

/** An array for each parameter instead of one for each page. */
function transposed(rows: readonly (readonly unknown[])[]): readonly (readonly unknown[])[] {
  const [first = []] = rows
  return first.map((_, index) => rows.map(row => row[index]))
}
