import {
  type Config,
  type DatabaseLocation,
  describeMistake,
  readDatabaseOption,
} from './config/settings.ts'
import { OperatorError } from './errors.ts'
import { isFileOfDatabase, keepTemporaryFilesBy } from './open-database.ts'
import { type CopyOptions, copyDatabase } from './storage/copy/copy-database.ts'
import type { DatabaseTasks } from './storage/database-tasks.ts'
import { createPostgresDatabaseTasks } from './storage/postgres/maintenance/postgres-database-tasks.ts'
import { blaming } from './storage/unusable-database.ts'

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
  const opened = await blaming(inSource, () => openSource(sourceLocation))
  const source = blamingEach(inSource, opened)
  const copy = async () => {
    const target = await openTarget(targetLocation)
    return copyDatabase({ ...options, source, target }).finally(target.close)
  }
  const result = await blaming(inTarget, copy).finally(source.close)
  return { ...result, from: sourceLocation.url, to: targetLocation.url }
}

/** Blames each method alone, because a copy calls those of both databases in turn. */
function blamingEach<T extends object>(describe: (reason: string) => string, methods: T): T {
  const entries = Object.entries(methods).map(([name, method]) => [
    name,
    (...values: unknown[]) => blaming(describe, () => method(...values)),
  ])
  return Object.fromEntries(entries)
}

/** A second connection of one process to a file would drop the locks of the first. PostgreSQL has a lock of its own. */
function requireTwo(source: DatabaseLocation, target: DatabaseLocation): void {
  if (source.kind !== 'sqlite' || target.kind !== 'sqlite') return
  const isSame =
    isFileOfDatabase(source.path, { database: target }) ||
    isFileOfDatabase(target.path, { database: source })
  if (isSame) throw new OperatorError(['--from and --to name the same database'])
}

/** Loads only the drivers that the copy uses. A new engine needs one more case here and in `openTarget`. */
async function openSource(location: DatabaseLocation) {
  if (location.kind === 'sqlite') {
    const sqlite = await import('./storage/sqlite/copy/sqlite-copy-source.ts')
    return sqlite.openSqliteCopySource(location.path)
  }
  const postgres = await import('./storage/postgres/copy/postgres-copy-source.ts')
  return postgres.openPostgresCopySource(location)
}

async function openTarget(location: DatabaseLocation) {
  if (location.kind === 'sqlite') {
    const sqlite = await import('./storage/sqlite/copy/sqlite-copy-target.ts')
    return sqlite.openSqliteCopyTarget(location.path)
  }
  const postgres = await import('./storage/postgres/copy/postgres-copy-target.ts')
  return postgres.openPostgresCopyTarget(location)
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
