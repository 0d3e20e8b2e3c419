import type { CopiedRow, CopiedTable } from './copied-tables.ts'

/** One end of a copy. Each call throws `UnusableDatabase` if the database cannot be used. */
export interface CopyEnd {
  /** The next rows of a table, at most `limit`, which must be the same in each call. Empty once all have been read. */
  next(table: CopiedTable, limit: number): Promise<readonly CopiedRow[]>
  /** The greatest id that was ever given out; 0 if none was. */
  lastId(): Promise<number>
  close(): Promise<void>
}

/** One state of a database, which does not change while others write to it. */
export interface CopySource extends CopyEnd {
  countUsers(): Promise<number>
}

/**
 * A database that nothing else writes to until it is closed. All but its mark is written in one transaction, which
 * `close` undoes unless it was committed.
 */
export interface CopyTarget extends CopyEnd {
  /**
   * Marks the database as an unfinished copy, which nothing else uses, and empties it. Throws `NOT_EMPTY` unless it is an
   * unfinished copy already, or has no counted row and has never given out an id.
   */
  begin(): Promise<void>
  /** Adds rows, which for users are in the order of their ids. Throws `UnusableDatabase`, which names a row that is refused. */
  add(table: CopiedTable, rows: readonly CopiedRow[]): Promise<void>
  /** After the last row: makes what was left out while rows were added, and never gives out `lastId` or a smaller id. */
  complete(lastId: number): Promise<void>
  /** Removes the mark. */
  commit(): Promise<void>
}

/** Why a database is refused as a target. */
export const NOT_EMPTY =
  'it is not empty: it has users, idempotency keys, bans or API keys, or had users'
