import type { ApiKeyStore } from '../access/api-key.ts'
import type { BanStore } from '../limits/ban-store.ts'
import type { Clocks } from '../platform/clocks.ts'
import type { UserImportStore } from '../users/transfer/user-import-store.ts'
import type { UserChanges } from '../users/user-changes.ts'
import type { UserRepository } from '../users/user-repository.ts'
import type { WebhookStore } from '../webhooks/webhook.ts'
import type { CopyStore } from './create-copy-store.ts'
import type { Program } from './programs.ts'

/**
 * An open database of any engine. Each call that returns a promise may cost a round trip and ends within seconds. It throws
 * `storage_unavailable` while the database cannot be used, and `shutting_down` once it is closed.
 */
export interface Storage {
  readonly users: UserRepository
  readonly changes: UserChanges
  readonly imports: UserImportStore
  readonly bans: BanStore
  readonly apiKeys: ApiKeyStore
  readonly copies: CopyStore
  readonly webhooks: WebhookStore
  /**
   * A secret of 32 random bytes for the cursors of lists, or for the names of counters in Redis. The same for every process
   * that uses the database.
   */
  signingKey(name: 'cursor' | 'counters'): Promise<Buffer>
  /** Makes reads that begin after this call see all that was committed before it. */
  readAnew(): void
  /** Does not ask the database, so it works without it, and after `close`. */
  report(): StorageReport
  /** Whether nobody has used the database for a minute, and its server may sleep. Housekeeping then waits for the next use. */
  isIdle(): boolean
  /**
   * For the reads of a start: repeats `work` while the server cannot be reached, for as long as `open` would wait, and
   * then throws `UnusableDatabase`. Throws other errors as they are.
   */
  untilReachable<T>(work: () => Promise<T>): Promise<T>
  /** Finishes the writes that wait, then closes the database. Called once. */
  close(): Promise<void>
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

/**
 * Runs statements that SQLite and PostgreSQL both understand, with the parameters `$1`, `$2`, … Each is one transaction. A
 * row is the values of its columns in their order: whole numbers are numbers, bytes are buffers.
 * Throws what calls of a `Storage` throw when it cannot be used.
 */
export interface SharedStatements {
  /** Runs a statement that only reads. */
  read<R extends readonly unknown[]>(
    sql: string,
    values?: readonly unknown[],
    options?: Pick<TransactionOptions, 'isLong'>,
  ): Promise<R[]>
  /** Runs a statement that writes, and returns the rows that its RETURNING names. */
  write<R extends readonly unknown[]>(sql: string, values: readonly unknown[]): Promise<R[]>
  /** Runs a program in one transaction. If it throws, only what it did is undone. */
  transaction<T>(program: () => Program<T>, options?: TransactionOptions): Promise<T>
}

/** What an engine must know of a transaction, or a read. */
export interface TransactionOptions {
  /** Whether on PostgreSQL it may take longer than a second, such as an import. By default it is short. */
  readonly isLong?: boolean
  /** How many writes of callers it does: 1 by default, 0 for housekeeping. */
  readonly writes?: number
}

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

export interface OpenStorageOptions extends Omit<Clocks, 'monotonicNow'> {
  /** Writes that may wait at a time; a write beyond that throws `overloaded`. */
  readonly maxWaitingWrites: number
  /** What to do without a database. One with an older schema is migrated by `create` and refused by `refuse`. */
  readonly ifMissing: 'create' | 'refuse'
  /** Refuses a database that ends with this process. */
  readonly mustPersist?: boolean
  /** Tunes the database for few large writes. */
  readonly isBulk?: boolean
  /** Whether nothing in it may change, not even the form of its file. */
  readonly isReadOnly?: boolean
  /** Whether `copy` will fill it: an unfinished copy is taken too. */
  readonly isCopyTarget?: boolean
  /** Called with what an operator should know although the storage works: a fixed sentence for the log, and its cause. */
  readonly onWarning?: (message: string, cause?: unknown) => void
  /** Called for each transaction that has been committed, before its writes are answered. */
  readonly onCommit?: ((commit: Commit) => void) | undefined
  /**
   * If given, words of users that older rules made are made again while the storage is open. Called with the progress from time
   * to time, and at the end.
   */
  readonly onFolding?: (progress: FoldingProgress) => void
}

/** How far the words of users are made again. */
export interface FoldingProgress {
  readonly isComplete: boolean
  /** All users up to this id have theirs. */
  readonly through: number
  /** The greatest id of a user. */
  readonly lastId: number
}

/** A database of one engine, which need not be open or exist. */
export interface StorageEngine {
  /** Whether the database ends with the process. */
  readonly isInMemory: boolean
  /** Whether there is a database with a schema of any release. Throws `UnusableDatabase` if that cannot be told. */
  exists(): Promise<boolean>
  /** Throws `UnusableDatabase`, and then leaves the database as it was. */
  open(options: OpenStorageOptions): Promise<Storage>
  /** The path of its file; `undefined` without one. */
  readonly file: string | undefined
  /** Whether a path leads to a file of the database, there or not. Commands must not use it for anything else. */
  ownsFile(path: string): boolean
  /**
   * Lets it keep its temporary files where the database is, by the variables of this process, unless they name another place:
   * they hold users, and /tmp may be small, or in memory. Called before the database is first used.
   */
  keepTemporaryFiles(environment: Record<string, string | undefined>): void
}
