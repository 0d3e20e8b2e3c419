import {
  type Config,
  type DatabaseLocation,
  describeMistake,
  readDatabaseOption,
} from './config/settings.ts'
import { OperatorError, ServiceError } from './errors.ts'
import { isFileOfDatabase, keepTemporaryFilesBy, openCopyEnd } from './open-database.ts'
import { type CopyEnd, type CopyOptions, copyUsers } from './storage/copy-users.ts'
import type { DatabaseTasks } from './storage/database-tasks.ts'
import { createPostgresDatabaseTasks } from './storage/postgres/maintenance/postgres-database-tasks.ts'
import { blaming, UnusableDatabase } from './storage/unusable-database.ts'

export interface CopyBetween extends Pick<CopyOptions, 'onProgress' | 'signal'> {
  /** The texts of the options. */
  readonly from: string
  readonly to: string
  readonly environment: Record<string, string | undefined>
}

/** Copies everything from one database into another. Throws `OperatorError`, and the reason of `signal`. */
export async function copyDatabases({ from, to, environment, ...options }: CopyBetween) {
  const sourceLocation = readDatabaseOption('--from', from, environment)
  const targetLocation = readDatabaseOption('--to', to, environment)
  requireTwo(sourceLocation, targetLocation)
  keepTemporaryFilesBy(targetLocation, environment)
  keepTemporaryFilesBy(sourceLocation, environment)
  const inSource = (reason: string) => describeMistake('--from', sourceLocation.url, reason)
  const inTarget = (reason: string) => describeMistake('--to', targetLocation.url, reason)
  return withCopyEnd(sourceLocation, 'source', inSource, async source =>
    withCopyEnd(targetLocation, 'target', inTarget, async target => {
      const result = await copyUsers({ ...options, source, target })
      return { ...result, from: sourceLocation.url, to: targetLocation.url }
    }),
  )
}

/** Blames the database for errors of the work that it explains, because a copy uses both in turn. */
async function withCopyEnd<T>(
  location: DatabaseLocation,
  end: 'source' | 'target',
  describe: (reason: string) => string,
  work: (end: CopyEnd) => Promise<T>,
): Promise<T> {
  const explain: CopyEnd['explain'] = one => blaming(describe, () => one().catch(throwUnusable))
  const storage = await explain(() => openCopyEnd(location, end))
  return work({ storage, explain }).finally(storage.close)
}

function throwUnusable(error: unknown): never {
  if (!(error instanceof ServiceError)) throw error
  const { message } = (error.cause ?? error) as Error
  throw new UnusableDatabase(`it cannot be used: ${message}`, { cause: error })
}

/** A second connection of one process to a file would drop the locks of the first. PostgreSQL has a lock of its own. */
function requireTwo(source: DatabaseLocation, target: DatabaseLocation): void {
  if (source.kind !== 'sqlite' || target.kind !== 'sqlite') return
  const isSame =
    isFileOfDatabase(source.path, { database: target }) ||
    isFileOfDatabase(target.path, { database: source })
  if (isSame) throw new OperatorError(['--from and --to name the same database'])
}

/**
 * Runs `work` with the tasks on the database of the settings. Throws `OperatorError` if the database or a file cannot be used.
 * A new engine needs one more case here and in `open-database.ts`.
 */
export function withDatabaseTasks<T>(
  { database }: Config,
  work: (tasks: DatabaseTasks) => Promise<T>,
): Promise<T> {
  const describe = (reason: string) => describeMistake('DATABASE_URL', database.url, reason)
  return blaming(describe, async () => work(await openTasks(database)))
}

async function openTasks(location: DatabaseLocation): Promise<DatabaseTasks> {
  if (location.kind === 'postgres') return createPostgresDatabaseTasks(location)
  const sqlite = await import('./storage/sqlite/maintenance/sqlite-database-tasks.ts')
  return sqlite.createSqliteDatabaseTasks(location.path)
}
