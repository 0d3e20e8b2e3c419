import type { StorageReport } from '../storage-report.ts'

/** SQL with the parameters `$1`, `$2`, … A statement with a name is prepared once by each connection. */
export interface Statement {
  readonly name?: string
  readonly text: string
  /** Whether it may take any time, as a migration may. */
  readonly isUnbounded?: boolean
}

/** The values of a row in the order of its columns. A `bigint` is a number, `bytea` a buffer. */
export type Row = readonly unknown[]

/** One connection, for the time of one piece of work. */
export interface Session {
  query<R extends Row>(statement: Statement, values?: readonly unknown[]): Promise<R[]>
}

export interface WorkOptions {
  /**
   * For work that may take longer than a second, such as a list or an import. It has connections of its own, so that short
   * work never waits for it.
   */
  readonly isLong?: boolean
  /** For short reads of other tables than `users`, on a connection of their own: they never wait for a lock on that table. */
  readonly avoidsUsers?: boolean
  /** For short work that waits for locks of others, on connections of its own for the same reason. */
  readonly isPatient?: boolean
  /** Until when to wait for a connection, by `performance.now()`. */
  readonly deadline?: number
}

export interface WriteOptions<T> extends WorkOptions {
  /** How many writes that were asked of the storage the result has done. Without it, the work is housekeeping: none. */
  readonly countWrites?: (result: T) => number
}

/** What was committed since the start, and the connections now. */
export type ConnectionsReport = Required<Pick<StorageReport, 'commits' | 'connections'>>

/**
 * The connections to one PostgreSQL database. Work waits at most about two seconds for a connection, and fails at once
 * while the server is known to be away.
 *
 * Every call throws `storage_unavailable` if nothing was changed because the server cannot be reached, takes no writes or
 * has no resources left, or because a lock was not free in time; `outcome_unknown` if the connection broke while it was
 * committing; and `shutting_down` after `close`. Other errors of the server pass as they are: see `postgres-errors.ts`.
 */
export interface Connections {
  /** Runs statements that only read. Runs them once more on another connection if theirs breaks. */
  read<T>(work: (session: Session) => Promise<T>, options?: WorkOptions): Promise<T>
  /** Runs one statement that writes, in a transaction of its own. */
  write<T>(work: (session: Session) => Promise<T>, options?: WriteOptions<T>): Promise<T>
  /** Runs statements in one transaction (READ COMMITTED), which is rolled back if the work throws. */
  transaction<T>(work: (session: Session) => Promise<T>, options?: WriteOptions<T>): Promise<T>
  /** Runs a statement. Throws `storage_unavailable` unless the server answers now and takes writes. */
  ping(statement: Statement): Promise<void>
  /** Asks nobody, and answers after `close` too. */
  report(): ConnectionsReport
  /** Ends once the work that runs has ended, then closes all connections. */
  close(): Promise<void>
}
