import type { FoldingProgress } from './storage.ts'

export interface BackupOptions {
  /** The path of the backup. */
  readonly file: string
  /** Called with how many bytes are copied, of how many. */
  readonly onProgress: (done: number, total: number) => void
}

export interface MigrateOptions {
  /** Whether the words of users are made again, and an index of them that is not right. */
  readonly reindex?: boolean
  /** Whether cursors of the feed of changes and entity tags of lists expire, as after a restore. */
  readonly newFeed?: boolean
  readonly onFolding?: (progress: FoldingProgress) => void
  /** Aborts making words: the next call or a service begins again. */
  readonly signal?: AbortSignal
}

export interface MigrationStatus {
  readonly name: string
  /** ISO 8601 in UTC; undefined while it is pending. */
  readonly appliedAt: string | undefined
}

export interface Restored {
  /** Where the previous database is, if there was one. */
  readonly setAside: string | undefined
  /** Names of the migrations that the restored database still lacks. */
  readonly pending: readonly string[]
  /** How many webhooks are disabled until they are resumed. */
  readonly webhooks: number
}

export interface CheckReport {
  /** One line each; empty if the database is sound. */
  readonly faults: readonly string[]
  /** Names of the migrations that the database still lacks. */
  readonly pending: readonly string[]
  /** What an operator should know of a sound database too, one line each. Follows the name of the database and a colon. */
  readonly notes?: readonly string[]
}

/**
 * Maintenance tasks on a whole database. Each call opens the database and closes it. Throws `UnusableDatabase` if a task
 * cannot be done, for example because the engine has its own tools for it. The process may end at any moment of a task: the
 * database is then as before or as after it.
 */
export interface DatabaseTasks {
  /** The name of the database in messages, such as the path of its file. */
  readonly name: string
  /** Brings the schema and the words of users to this release; creates a database that does not exist. */
  migrate(options?: MigrateOptions): Promise<void>
  /** The migrations of this release in order. Changes nothing. */
  migrationStatus(): Promise<readonly MigrationStatus[]>
  /** Copies the database to `file`, also while it is in use. Only a complete copy replaces an existing `file`. Returns its size. */
  backup(options: BackupOptions): Promise<{ readonly bytes: number }>
  /** Replaces the database with `file`. Throws while a service uses the database. */
  restore(options: Pick<BackupOptions, 'file'>): Promise<Restored>
  /** Checks the database, also while it is in use. Changes nothing. */
  check(): Promise<CheckReport>
  /** Returns free space to the file system. Throws while a service uses the database. Returns its sizes with all its files. */
  compact(): Promise<{ readonly bytesBefore: number; readonly bytesAfter: number }>
}
