import { hash } from 'node:crypto'
import { ServiceError } from '../../errors.ts'
import { performance } from '../../platform/timers.ts'
import type { UserQuery, UserReads } from '../../users/user-repository.ts'
import { namesOf } from '../list-dialect.ts'
import { createListPrograms, MAX_LIST_MS } from '../list-programs.ts'
import { type Program, runAwaited } from '../programs.ts'
import type { Connections, Session } from './postgres-connections.ts'
import { isOfState } from './postgres-errors.ts'
import { postgresListDialect } from './postgres-list-dialect.ts'

/** That of requests that name none. */
const USUAL_LIMIT = 100

const LIMIT_STATEMENTS = `SELECT set_config('statement_timeout', $1, true)`

/** The SQLSTATE of a statement that took longer. */
const STATEMENT_TIMEOUT = '57014'

const lists = createListPrograms(postgresListDialect)

/** Lists of the table `users`. One that an index answers is a single short statement, another one a transaction. */
export function createPostgresUserLists(
  connections: Connections,
  { maxListMs = MAX_LIST_MS } = {},
): Pick<UserReads, 'list' | 'scan'> {
  const runShort = <T>(program: Program<T>, isPrepared: boolean): Promise<T> =>
    runAwaited(program, (sql, values) => {
      const statement = isPrepared ? { name: `list_${hash('sha1', sql)}`, text: sql } : sql
      return connections.query(statement, values, 'list')
    })

  function runLong<T>(program: () => Program<T>): Promise<T> {
    const endsAt = performance.now() + maxListMs
    return connections.snapshot(session => runAwaited(program(), asksUntil(endsAt, session)))
  }

  return {
    list: query =>
      lists.isShort(query)
        ? runShort(lists.readShort(query), isUsual(query))
        : runLong(() => lists.readLong(query)),

    scan: scan =>
      lists.isShortScan(scan) ? runShort(lists.scan(scan), false) : runLong(() => lists.scan(scan)),
  }
}

/** Whether a list has one of few forms, so that each connection keeps its statement: all forms are thousands. */
function isUsual({ filters, limit }: UserQuery): boolean {
  return limit === USUAL_LIMIT && namesOf(filters).length === 0
}

/** What asks within a transaction. All of it ends together at a time of `performance.now()`. Throws `overloaded` then. */
function asksUntil(endsAt: number, session: Session) {
  return async (sql: string, values: readonly unknown[]): Promise<unknown[][]> => {
    const withinMs = Math.ceil(endsAt - performance.now())
    if (withinMs <= 0) throw new ServiceError('overloaded')
    try {
      await session.query(LIMIT_STATEMENTS, [String(withinMs)])
      return await session.query<unknown[]>({ text: sql, withinMs }, values)
    } catch (cause) {
      const isLate = isOfState(cause, [STATEMENT_TIMEOUT])
      throw isLate ? new ServiceError('overloaded', { cause }) : cause
    }
  }
}
