import { runAwaited } from '../programs.ts'
import type { SharedStatements } from '../storage.ts'
import type { StorageReport } from '../storage-report.ts'

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
 * A kind of work. Each may have so many connections at a time that none waits for those of another:
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

/**
 * The connections to one PostgreSQL database. Short work ends within two seconds, with its wait for a connection, and fails at
 * once while the server is known to be away. Every statement has an end, also on a connection that has gone silent. Throws
 * `overloaded` if other long work has all connections of its share for so long.
 *
 * Every call throws `storage_unavailable` if nothing was changed because the server cannot be reached, takes no writes or
 * has no resources left, or because a lock was not free in time; `outcome_unknown` if there was no answer to a commit; and
 * `shutting_down` after `close`. Other errors of the server pass as they are: see `postgres-errors.ts`.
 */
export interface Connections {
  /** Runs a statement that only reads, by default as `short`. Runs it again on another connection if its own breaks. */
  query<R extends Row>(
    statement: Statement,
    values?: readonly unknown[],
    share?: Share,
  ): Promise<R[]>
  /** Runs a statement that writes, in a transaction of its own. */
  write<R extends Row>(
    statement: Statement,
    values?: readonly unknown[],
    options?: WriteOptions<R[]>,
  ): Promise<R[]>
  /**
   * Runs statements in one transaction (READ COMMITTED), which is rolled back if the work throws. Runs the work again if it
   * cannot have been done, so it changes nothing but the database.
   */
  transaction<T>(work: (session: Session) => Promise<T>, options?: WriteOptions<T>): Promise<T>
  /** Runs statements that only read, and that all see one moment. Runs them again if their connection breaks soon after the call. */
  snapshot<T>(work: (session: Session) => Promise<T>, share: 'long'): Promise<T>
  /**
   * Runs a statement that returns whether transactions are read-only. Throws `storage_unavailable` unless the server answers now
   * and takes writes.
   */
  ping(statement: Statement): Promise<void>
  /** Asks nobody, and answers after `close` too. */
  report(): Required<Pick<StorageReport, 'connections'>>
  /** Closes all connections once what runs, and `last`, have ended, or after three seconds. */
  close(last?: Promise<unknown>): Promise<void>
}

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
