import { ServiceError } from '../../errors.ts'
import type {
  UserPage,
  UserQuery,
  UserRepository,
  UserSelection,
} from '../../users/user-repository.ts'
import { areWordsIndexed } from './index-next-users.ts'
import { joinLookups } from './join-calls.ts'
import {
  areWordsFar,
  countStatement,
  type FilterName,
  filtersOf,
  filtersToCount,
  filterValues,
  formOf,
  type ListRow,
  type ListShape,
  MAX_SORTED_USERS,
  pageStatement,
  pagesStatement,
  shapeOf,
  soughtOf,
  toPage,
  valuesOf,
  walkStatement,
} from './list-sql.ts'
import {
  type Connections,
  columnsOf,
  type Row,
  type Session,
  type Statement,
} from './postgres-connections.ts'
import { unavailable } from './postgres-errors.ts'

/** Lists have thousands of possible forms, but clients use only few of them. */
const MAX_FORMS = 500

/** The users of all pages of one statement: about 1 MB. */
const MAX_USERS_A_STATEMENT = 5000

/** Users in one fetch: about 64 KB. */
const FETCHED = 500

const FETCH = `FETCH ${FETCHED} FROM whole_list`

/** Plans as for a list of which only the beginning is read: a sort of all users would keep the client waiting for it. */
const PLAN_FOR_FIRST = `SELECT set_config('cursor_tuple_fraction', '0', true)`

/** While the client reads slowly, the server must not take this process for dead: see `idleTimeoutMs`. */
const AWAKE_MS = 2000

/** `UserRepository.list`. Pages of one form that are asked for in one turn of the event loop share one statement. */
export function createUserLister(
  connections: Connections,
): (query: UserQuery) => Promise<UserPage> {
  const readers = new Map<string, (query: UserQuery) => Promise<UserPage>>()
  let forms = 0

  function createReader(shape: ListShape): (query: UserQuery) => Promise<UserPage> {
    const lane = shape.isShort ? 'short' : 'long'
    const number = ++forms
    // For what may read many users, PostgreSQL makes a plan for these parameters.
    const statementOf = (count: string, text: string): Statement =>
      shape.isShort ? { name: `list_${number}_${count}`, text } : text
    const one = statementOf('one', pageStatement(shape))
    const many = statementOf('many', pagesStatement(shape))
    const findRow = joinLookups<string, ListRow>(
      async keys => {
        const asked = keys.map(key => JSON.parse(key) as Row)
        const rows = await (keys.length === 1
          ? connections.query<ListRow>(one, asked[0], lane)
          : connections.query<ListRow>(many, columnsOf(asked), lane))
        return keys.map((key, place) => [key, rows[place] as ListRow])
      },
      { maxItems: Math.ceil(MAX_USERS_A_STATEMENT / shape.limit) },
    )
    return async query => {
      const row = await findRow(JSON.stringify(valuesOf(query, shape)))
      return toPage(row as ListRow, shape)
    }
  }

  function ask(query: UserQuery, shape: ListShape): Promise<UserPage> {
    const form = formOf(shape)
    let read = readers.get(form)
    if (read === undefined) {
      if (readers.size >= MAX_FORMS) readers.clear()
      read = createReader(shape)
      readers.set(form, read)
    }
    return read(query)
  }

  return async query => {
    const shape = shapeOf(query, await findFirst(connections, query))
    const page = await ask(query, shape)
    const isDone = !shape.isWalk || page.next !== undefined
    return isDone ? page : ask(query, shapeOf(query, ['words']))
  }
}

/** `UserRepository.walk`, by a cursor in a transaction, which a pooler keeps in one session too. */
export function createUserWalker(connections: Connections): UserRepository['walk'] {
  return async (selection, take) => {
    const names = filtersOf(selection)
    const first = await findFirst(connections, selection)
    // All of them are then found before the first is sent.
    const text = walkStatement(selection, areWordsFar(names, first) ? ['words'] : first)
    const filters = filterValues(selection)
    const values = names.map(name => filters[name])
    let hasBegun = false
    const read = async (session: Session) => {
      // What was taken cannot be given again.
      if (hasBegun) throw unavailable(new Error('the connection of a whole list broke'))
      await session.query(PLAN_FOR_FIRST)
      if (selection.words.length > 0 && !(await areWordsIndexed(session)))
        throw new ServiceError('words_unavailable')
      await session.query(`DECLARE whole_list NO SCROLL CURSOR FOR ${text}`, values)
      for (;;) {
        const users = await session.query<[string]>(FETCH)
        hasBegun = true
        const lines = users.map(([json]) => `${json}\n`).join('')
        await keepAwake(session, take(lines))
        if (users.length < FETCHED) return
      }
    }
    await connections.snapshot(read)
  }
}

async function keepAwake(session: Session, taking: Promise<void>): Promise<void> {
  // The next statement shows what went wrong.
  const timer = setInterval(() => session.query('SELECT').catch(() => {}), AWAKE_MS)
  try {
    await taking
  } finally {
    clearInterval(timer)
  }
}

/** The filters whose users are found first. They are few: sorting them is faster than skipping all others. */
async function findFirst(
  connections: Connections,
  query: UserSelection,
): Promise<readonly FilterName[]> {
  for (const names of filtersToCount(query)) {
    const values = filterValues(query)
    const asked = names.map(name => values[name])
    const [[count] = [0]] = await connections.query<[number]>(countStatement(names), asked, 'long')
    if (count <= MAX_SORTED_USERS) return names
  }
  return soughtOf(query)
}
