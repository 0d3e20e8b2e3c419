import { runAwaited } from '../programs.ts'
import type { SharedStatements } from '../storage.ts'
import type { openConnections } from './open-connections.ts'

/** SQL with the parameters `$1`, `$2`, …, alone or with what is special about it. */
export type Statement = string | SpecialStatement

export interface SpecialStatement {
  /** Belongs to one text for good. Each connection prepares the statement once and keeps it, so there are few of them. */
  readonly name?: string
  readonly text: string
  /** How long the server may take, in milliseconds; `Infinity` for a migration. By default as its share says. */
  readonly withinMs?: number
}

/** The values of a row in the order of its columns. A `bigint` is a number, `bytea` a buffer. */
export type Row = readonly unknown[]

/** The parameters for `unnest`: an array for each column of rows, of which there is at least one. */
export function columnsOf([first = [], ...others]: readonly Row[]): readonly unknown[][] {
  return first.map((value, at) => [value, ...others.map(row => row[at])])
}

/** One connection, for the time of one piece of work. */
export interface Session {
  query<R extends Row>(statement: Statement, values?: readonly unknown[]): Promise<R[]>
}

/**
 * A kind of work. Each has a share of the connections, so that none waits for those of another:
 * `short` reads of users, and short work on other tables;
 * `list` lists that an index answers;
 * `write` short writes of users, which throw at once what a lock of others makes the server throw. Other short work is repeated;
 * `long` what may take longer than a second, such as another list or an import. Only each of its statements has an end. It is
 * always one transaction.
 */
export type Share = 'short' | 'list' | 'write' | 'long'

export interface WriteOptions<T> {
  /** By default `write`. */
  readonly share?: Share
  /** From the call to its end, if that is sooner than for other short work. */
  readonly withinMs?: number
  /** How many writes of callers are done with the result. Left out for housekeeping, which does none. */
  readonly countWrites?: (result: T) => number
}

export type Connections = ReturnType<typeof openConnections>

/** The statements of `SharedStatements` on PostgreSQL. */
export function createPostgresSharedStatements(connections: Connections): SharedStatements {
  return {
    read: (sql, values, { isLong = false } = {}) =>
      connections.query(sql, values, isLong ? 'long' : 'short'),
    write: (sql, values) =>
      connections.write(sql, values, { share: 'short', countWrites: () => 1 }),
    transaction: (program, { isLong = false, writes = 1 } = {}) =>
      connections.transaction(session => runAwaited(program(), session.query), {
        share: isLong ? 'long' : 'short',
        countWrites: () => writes,
      }),
  }
}
