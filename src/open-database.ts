import { dirname } from 'node:path'
import { createClocks } from './clocks.ts'
import { type Config, type DatabaseLocation, describeMistake } from './config/settings.ts'
import { createPostgresEngine } from './storage/postgres/postgres-storage.ts'
import { companionOf, IN_MEMORY } from './storage/sqlite/database-files.ts'
import { createSqliteEngine } from './storage/sqlite/sqlite-storage.ts'
import type { OpenStorageOptions, Storage, StorageEngine } from './storage/storage.ts'
import { blaming } from './storage/unusable-database.ts'

/** Opens the database for a service, and creates it if it is missing. Throws `UnusableDatabase`. */
export function openStorage(
  { database, maxWaitingWrites }: Config,
  options: Omit<OpenStorageOptions, 'maxWaitingWrites' | 'ifMissing'>,
): Promise<Storage> {
  return engineOf(database).open({ maxWaitingWrites, ifMissing: 'create', ...options })
}

export interface CommandStorageOptions extends Pick<OpenStorageOptions, 'mustPersist' | 'isBulk'> {
  /** What to do without a database: create it, refuse, or use an empty one that is deleted when it closes. */
  readonly ifMissing: OpenStorageOptions['ifMissing'] | 'use empty'
}

/** Opens the database for a command, whether or not a service is running. Throws `OperatorError`. */
export function openStorageForCommand(
  { database, maxWaitingWrites }: Config,
  { ifMissing, ...options }: CommandStorageOptions,
): Promise<Storage> {
  const shared = { ...createClocks(), maxWaitingWrites, ...options }
  const describe = (reason: string) => describeMistake('DATABASE_URL', database.url, reason)
  return blaming(describe, async () => {
    const engine = engineOf(database)
    if (ifMissing !== 'use empty') return engine.open({ ...shared, ifMissing })
    return (await engine.exists())
      ? engine.open({ ...shared, ifMissing: 'refuse' })
      : createSqliteEngine(IN_MEMORY).open({ ...shared, ifMissing: 'create' })
  })
}

/** Opens one end of a copy. Throws `UnusableDatabase`. */
export function openCopyEnd(
  database: DatabaseLocation,
  end: 'source' | 'target',
): Promise<Storage> {
  const isTarget = end === 'target'
  return engineOf(database).open({
    ...createClocks(),
    maxWaitingWrites: 10_000,
    mustPersist: true,
    ifMissing: isTarget ? 'create' : 'refuse',
    isBulk: isTarget,
    isCopyTarget: isTarget,
  })
}

/**
 * Lets SQLite keep its temporary files beside a database: they hold users, and /tmp may be small, or in memory. For the variables
 * of this process, unless SQLITE_TMPDIR is one. SQLite reads that once, when it is loaded, which is when it is first used.
 */
export function keepTemporaryFilesBy(
  location: DatabaseLocation,
  environment: Record<string, string | undefined>,
): void {
  if (location.kind === 'postgres' || location.path === IN_MEMORY) return
  environment.SQLITE_TMPDIR ||= dirname(companionOf(location.path, '-journal'))
}

/** Whether the database is lost when the process ends. */
export function isInMemory({ database }: Config): boolean {
  return engineOf(database).isInMemory
}

/** Whether a path leads to a file of the database, also through a link. The file need not exist. */
export function isFileOfDatabase(path: string, { database }: Pick<Config, 'database'>): boolean {
  return engineOf(database).ownsFile(path)
}

/** A new engine needs one more case here and in `database-work.ts`. */
function engineOf(location: DatabaseLocation): StorageEngine {
  switch (location.kind) {
    case 'sqlite':
      return createSqliteEngine(location.path)
    case 'postgres':
      return createPostgresEngine(location)
  }
}
