import type { OpenStorageOptions } from './storage.ts'

/** A transaction that has been committed, with at least one write in it. */
export interface Commit {
  /** From BEGIN to the end of COMMIT, with the round trips to a server and the waits for its locks. */
  readonly seconds: number
  /**
   * The writes in it that callers are told are done. A write that was refused, such as one with a taken e-mail, does
   * not count, because it has changed nothing. Nor does an update on PostgreSQL of a user who is already as asked,
   * because it needs no transaction.
   */
  readonly writes: number
}

/** Returns a listener that never throws: what is committed is answered as done, whatever becomes of the report of it. */
export function reportingCommits({
  onCommit,
  onWarning,
}: Pick<OpenStorageOptions, 'onCommit' | 'onWarning'>) {
  return (commit: Commit): void => {
    try {
      onCommit?.(commit)
    } catch (error) {
      onWarning?.('a commit cannot be reported', error)
    }
  }
}

/** How one process uses its database. */
export interface StorageReport {
  /** Its name, such as `sqlite`. */
  readonly engine: string
  /** Writes that were asked for and have not ended. */
  readonly waitingWrites: number
  /**
   * Sizes of the files of an embedded database, in bytes. Absent in memory, for a database server, and while the files
   * cannot be found.
   */
  readonly fileBytes?: { readonly database: number; readonly wal: number }
  /** Connections to a database server. */
  readonly connections?: {
    readonly active: number
    readonly idle: number
    /** Work that waits for a connection. */
    readonly waiting: number
    /** While the server gives fewer than could be used: how many are open, and how many are tried for. */
    readonly short?: { readonly open: number; readonly wanted: number }
  }
}
