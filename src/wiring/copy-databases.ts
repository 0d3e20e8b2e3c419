import { type DatabaseLocation, describeMistake, readDatabaseOption } from '../config/settings.ts'
import { OperatorError, ServiceError } from '../errors.ts'
import { createClocks } from '../platform/clocks.ts'
import { type CopyEnd, type CopyOptions, copyUsers } from '../storage/copy-users.ts'
import type { Storage, StorageEngine } from '../storage/storage.ts'
import { blaming, UnusableDatabase } from '../storage/unusable-database.ts'
import { engineOf } from './engines.ts'

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
  requireTwo(engineOf(sourceLocation), engineOf(targetLocation))
  engineOf(targetLocation).keepTemporaryFiles(environment)
  engineOf(sourceLocation).keepTemporaryFiles(environment)
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
    isReadOnly: !isTarget,
    isBulk: isTarget,
    isCopyTarget: isTarget,
  })
}

function throwUnusable(error: unknown): never {
  if (!(error instanceof ServiceError)) throw error
  const { message } = (error.cause ?? error) as Error
  throw new UnusableDatabase(`it cannot be used: ${message}`, { cause: error })
}

/** A second connection of one process to a file would drop the locks of the first. Servers of databases have locks of their own. */
function requireTwo(source: StorageEngine, target: StorageEngine): void {
  const owns = (one: StorageEngine, other: StorageEngine) =>
    one.file !== undefined && other.ownsFile(one.file)
  if (owns(source, target) || owns(target, source)) {
    throw new OperatorError(['--from and --to name the same database'])
  }
}
