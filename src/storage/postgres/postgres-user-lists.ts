import { hash } from 'node:crypto'
import { ServiceError } from '../../errors.ts'
import { performance, ticks } from '../../timers.ts'
import type { UserPage, UserQuery, UserReads } from '../../users/user-repository.ts'
import { namesOf } from '../list-plan.ts'
import { createListPrograms, MAX_LIST_MS } from '../list-programs.ts'
import { type Program, runAwaited } from '../programs.ts'
import type { Connections, Row, Session } from './postgres-connections.ts'
import { isOfState, unavailable } from './postgres-errors.ts'
import { postgresListDialect } from './postgres-list-dialect.ts'

/** That of requests that name none. */
const USUAL_LIMIT = 100

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

const lists = createListPrograms(postgresListDialect)

/** Lists of the table `users`. One that an index answers is a single short statement, another one a transaction. */
export function createPostgresUserLists(
  connections: Connections,
  { maxListMs = MAX_LIST_MS } = {},
): Pick<UserReads, 'list' | 'walk'> {
  const listShort = (query: UserQuery): Promise<UserPage> =>
    runAwaited(lists.readShort(query), (sql, values) => {
      const statement = isUsual(query) ? { name: `list_${hash('sha1', sql)}`, text: sql } : sql
      return connections.query(statement, values, 'list')
    })

  async function listLong(query: UserQuery): Promise<UserPage> {
    const startedAt = performance.now()
    const endsAt = startedAt + maxListMs
    return connections.snapshot(async connection => {
      const lockMs = LOCK_PATIENCE_MS - Math.ceil(performance.now() - startedAt)
      await connection.query(LIMIT_LOCKS, [String(Math.max(MIN_LOCK_MS, lockMs))])
      const { run } = asksUntil(endsAt, connection)
      await run(lists.requireWords(query))
      return run(lists.readLong(query))
    }, 'long')
  }

  return {
    list: query => (lists.isShort(query) ? listShort(query) : listLong(query)),

    // By a cursor in a transaction, which a pooler keeps in one session too.
    walk: async (selection, take) => {
      const endsAt = performance.now() + maxListMs
      let hasBegun = false
      await connections.snapshot(async connection => {
        // What was taken cannot be given again.
        if (hasBegun) throw unavailable(new Error('the connection of a whole list broke'))
        const { query, run } = asksUntil(endsAt, connection)
        await query(PLAN_FOR_FIRST)
        await run(lists.requireWords(selection))
        const { sql, values } = await run(lists.planWhole(selection))
        await query(`DECLARE whole_list NO SCROLL CURSOR FOR ${sql}`, values)
        let users = await query<[string]>(FETCH)
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

/** Whether a list has one of few forms, so that each connection keeps its statement: all forms are thousands. */
function isUsual({ filters, limit }: UserQuery): boolean {
  return limit === USUAL_LIMIT && namesOf(filters).length === 0
}

/** What asks within a transaction. All of it ends together at a time of `performance.now()`. Throws `overloaded` then. */
function asksUntil(endsAt: number, session: Session) {
  async function query<R extends Row>(sql: string, values: readonly unknown[] = []): Promise<R[]> {
    const withinMs = Math.ceil(endsAt - performance.now())
    if (withinMs <= 0) throw new ServiceError('overloaded')
    try {
      await session.query(LIMIT_STATEMENTS, [String(withinMs)])
      return await session.query<R>({ text: sql, withinMs }, values)
    } catch (cause) {
      const isLate = isOfState(cause, [STATEMENT_TIMEOUT])
      throw isLate ? new ServiceError('overloaded', { cause }) : cause
    }
  }
  return { query, run: <T>(program: Program<T>) => runAwaited(program, query<unknown[]>) }
}

async function keepAwake(session: Session, taking: Promise<void>): Promise<void> {
  const taken = new AbortController()
  async function askAgain(): Promise<void> {
    for await (const _ of ticks(AWAKE_MS, undefined, { signal: taken.signal }))
      await session.query('SELECT')
  }
  // The next statement shows what went wrong.
  const asking = askAgain().catch(() => {})
  try {
    await taking
  } finally {
    taken.abort()
    await asking
  }
}
