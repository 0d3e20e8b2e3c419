import { maskCredentials } from '../config/url-parts.ts'
import { type DatabaseOption, type Environment, readDatabaseOption } from '../config/settings.ts'
import type { DatabaseLocation } from '../config/settings.ts'
import { OperatorError } from '../errors.ts'
import { type CopyProgress, type CopyResult, copyDatabase } from '../storage/copy/copy-database.ts'
import type { CopySource, CopyTarget } from '../storage/copy/database-copy.ts'
import { blameOption, blameOptionIn } from './blame-option.ts'
import { isFileOfDatabase } from './open-storage.ts'

export interface CopyBetween {
  /** The texts of the options. */
  readonly from: string
  readonly to: string
  readonly environment: Environment
  readonly onProgress: (progress: CopyProgress) => void
  readonly signal: AbortSignal
}

/** What was copied, and the options with credentials masked. */
export interface Copied extends CopyResult {
  readonly from: string
  readonly to: string
}

/** Copies everything from one database into another. Throws `OperatorError`, and the reason of `signal`. */
export async function copyDatabases(options: CopyBetween): Promise<Copied> {
  const { from, to, environment, onProgress, signal } = options
  const ofSource: DatabaseOption = { name: '--from', url: from }
  const ofTarget: DatabaseOption = { name: '--to', url: to }
  const sourceLocation = readDatabaseOption(ofSource, environment)
  const targetLocation = readDatabaseOption(ofTarget, environment)
  requireTwo(sourceLocation, targetLocation)
  const source = await blameOption(ofSource, () => openSource(sourceLocation))
  try {
    const target = await blameOption(ofTarget, () => openTarget(targetLocation))
    try {
      const result = await blameOption(ofTarget, () =>
        copyDatabase({
          source: blameOptionIn(ofSource, source),
          target: blameOptionIn(ofTarget, target),
          onProgress,
          signal,
        }),
      )
      return { ...result, from: maskCredentials(from), to: maskCredentials(to) }
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
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
 * Loads only the drivers that the copy uses. A new engine needs one more case here and in `openTarget`.
 */
async function openSource(location: DatabaseLocation): Promise<CopySource> {
  if (location.kind === 'sqlite') {
    const { openSqliteCopySource } = await import('../storage/sqlite/copy/sqlite-copy-source.ts')
    return openSqliteCopySource(location.path)
  }
  const { openPostgresCopySource } = await import(
    '../storage/postgres/copy/postgres-copy-source.ts'
  )
  return openPostgresCopySource(location)
}

async function openTarget(location: DatabaseLocation): Promise<CopyTarget> {
  if (location.kind === 'sqlite') {
    const { openSqliteCopyTarget } = await import('../storage/sqlite/copy/sqlite-copy-target.ts')
    return openSqliteCopyTarget(location.path)
  }
  const { openPostgresCopyTarget } = await import(
    '../storage/postgres/copy/postgres-copy-target.ts'
  )
  return openPostgresCopyTarget(location)
}
