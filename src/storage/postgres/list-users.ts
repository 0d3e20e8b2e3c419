import { hash } from 'node:crypto'
import { ServiceError } from '../../errors.ts'
import type { UserPage, UserQuery, UserReads, UserSelection } from '../../users/user-repository.ts'
import { ARE_WORDS_INDEXED } from '../index-next-users.ts'
import { MAX_SORTED_USERS } from '../list-plan.ts'
import {
  areWordsFar,
  type Criterion,
  countStatement,
  criteriaToCount,
  fewOf,
  isShort,
  type ListRow,
  pageStatement,
  toPage,
  walkStatement,
} from './list-sql.ts'
import type { Connections, Session, Statement } from './postgres-connections.ts'
import { isOfState, unavailable } from './postgres-errors.ts'

/** From the call on. Clients and proxies give up after some time, and a list that nobody waits for costs the others. */
const MAX_LIST_MS = 20_000

/** Users in one fetch: about 64 KB. */
const FETCHED = 500

const FETCH = `FETCH ${FETCHED} FROM whole_list`

/** Plans as for a list of which only the beginning is read: a sort of all users would keep the client waiting for it. */
const PLAN_FOR_FIRST = `SELECT set_config('cursor_tuple_fraction', '0', true)`

const LIMIT_STATEMENTS = `SELECT set_config('statement_timeout', $1, true)`

const LIMIT_LOCKS = `SELECT set_config('lock_timeout', $1, true)`

/** From the call to the end of a wait for a lock, with the wait for a connection before it. */
const LOCK_PATIENCE_MS = 1700

const MIN_LOCK_MS = 100

/** The SQLSTATE of a statement that took longer. */
const STATEMENT_TIMEOUT = '57014'

/** While the client reads slowly, the server must not take this process for dead: see `idleTimeoutMs`. */
const AWAKE_MS = 2000

/** Lists of the table `users`. One that an index answers is a single short statement, another one a transaction. */
export function createUserLists(
  connections: Connections,
  { maxListMs = MAX_LIST_MS } = {},
): Pick<UserReads, 'list' | 'walk'> {
  async function listShort(query: UserQuery): Promise<UserPage> {
    const { text, values } = pageStatement(query)
    const statement = { name: `list_${hash('sha1', text)}`, text }
    const [row] = await connections.query<ListRow>(statement, values, 'list')
    return toPage(row as ListRow, query)
  }

  async function listLong(query: UserQuery): Promise<UserPage> {
    const startedAt = performance.now()
    const endsAt = startedAt + maxListMs
    return connections.snapshot(async connection => {
      const lockMs = LOCK_PATIENCE_MS - Math.ceil(performance.now() - startedAt)
      await connection.query(LIMIT_LOCKS, [String(Math.max(MIN_LOCK_MS, lockMs))])
      const session = endingAt(connection, endsAt)
      const foundFirst = await findFirst(session, query)
      const page = await readPage(session, query, foundFirst)
      const isDone = !areWordsFar(query, foundFirst) || page.next !== undefined
      return isDone ? page : readPage(session, query, ['words'])
    }, 'long')
  }

  return {
    list: query => (isShort(query) ? listShort(query) : listLong(query)),

    // By a cursor in a transaction, which a pooler keeps in one session too.
    walk: async (selection, take) => {
      const endsAt = performance.now() + maxListMs
      let hasBegun = false
      await connections.snapshot(async connection => {
        // What was taken cannot be given again.
        if (hasBegun) throw unavailable(new Error('the connection of a whole list broke'))
        const session = endingAt(connection, endsAt)
        await session.query(PLAN_FOR_FIRST)
        const foundFirst = await findFirst(session, selection)
        // All of them are then found before the first is sent.
        const found = areWordsFar(selection, foundFirst) ? (['words'] as const) : foundFirst
        const { text, values } = walkStatement(selection, found)
        await session.query(`DECLARE whole_list NO SCROLL CURSOR FOR ${text}`, values)
        let users = await session.query<[string]>(FETCH)
        await connection.query(LIMIT_STATEMENTS, [String(maxListMs)])
        for (;;) {
          hasBegun = true
          await keepAwake(connection, take(users.map(([json]) => `${json}\n`).join('')))
          if (users.length < FETCHED) return
          users = await connection.query<[string]>(FETCH)
        }
      }, 'whole')
    },
  }
}

/** The session in a transaction, whose statements end together at a time of `performance.now()`. Throws `overloaded` then. */
function endingAt(session: Session, endsAt: number): Session {
  async function inTime<T>(ask: (withinMs: number) => Promise<T>): Promise<T> {
    const withinMs = Math.ceil(endsAt - performance.now())
    if (withinMs <= 0) throw new ServiceError('overloaded')
    try {
      return await ask(withinMs)
    } catch (cause) {
      throw isOfState(cause, [STATEMENT_TIMEOUT])
        ? new ServiceError('overloaded', { cause })
        : cause
    }
  }
  return {
    query: (statement: Statement, values) =>
      inTime(async withinMs => {
        const asked = typeof statement === 'string' ? { text: statement } : statement
        await session.query(LIMIT_STATEMENTS, [String(withinMs)])
        return session.query({ ...asked, withinMs }, values)
      }),
  }
}

async function readPage(
  session: Session,
  query: UserQuery,
  foundFirst: readonly Criterion[],
): Promise<UserPage> {
  const { text, values } = pageStatement(query, foundFirst)
  const [row] = await session.query<ListRow>(text, values)
  return toPage(row as ListRow, query)
}

/**
 * The criteria whose users are found first. They are few: sorting them is faster than skipping all others. Throws
 * `words_unavailable` if users lack words.
 */
async function findFirst(
  session: Session,
  selection: UserSelection,
): Promise<readonly Criterion[]> {
  if (selection.words.length > 0) {
    const [[areIndexed] = [false]] = await session.query<[boolean]>(ARE_WORDS_INDEXED)
    if (!areIndexed) throw new ServiceError('words_unavailable')
  }
  for (const criteria of criteriaToCount(selection)) {
    const { text, values } = countStatement(selection, criteria)
    const [[count] = [0]] = await session.query<[number]>(text, values)
    if (count <= MAX_SORTED_USERS) return criteria
  }
  return fewOf(selection)
}

async function keepAwake(session: Session, taking: Promise<void>): Promise<void> {
  let asking: Promise<unknown> | undefined
  const timer = setInterval(() => {
    // The next statement shows what went wrong.
    asking ??= session
      .query('SELECT')
      .catch(() => {})
      .finally(() => {
        asking = undefined
      })
  }, AWAKE_MS)
  try {
    await taking
  } finally {
    clearInterval(timer)
    await asking
  }
}
