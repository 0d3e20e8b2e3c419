import { chmodSync, chownSync, linkSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import { syncFile, syncFolder } from '../../../files/durable-files.ts'
import { UnusableDatabase } from '../../unusable-database.ts'

export interface ReplaceOptions {
  readonly path: string
  /** A file of mode 600 beside `path`, which gets its name. */
  readonly partial: string
  /** A second name that the old file gets first, if it is to be kept. */
  readonly kept: string | undefined
}

/** Of a link or a rename where a file is mounted alone, or where files cannot have two names. */
const NOT_REPLACEABLE = ['EBUSY', 'EXDEV', 'EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK']

/**
 * Replaces a file by another one, which gets its owner. However this process ends, also by a loss of power, `path` leads to
 * all of one of them, and the old one is not lost. Throws `UnusableDatabase` where no file can take its place.
 */
export function replaceFile({ path, partial, kept }: ReplaceOptions): void {
  const { uid, gid } = statSync(path)
  if (statSync(partial).uid !== uid) chownSync(partial, uid, gid)
  syncFile(partial)
  if (kept !== undefined) {
    chmodSync(path, 0o600)
    explainMove(() => linkSync(path, kept))
    // Otherwise a loss of power could keep the rename and lose this name.
    syncFolder(dirname(path))
  }
  try {
    explainMove(() => renameSync(partial, path))
  } catch (error) {
    if (kept !== undefined) rmSync(kept)
    throw error
  }
  syncFolder(dirname(path))
}

function explainMove(move: () => void): void {
  try {
    move()
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException
    if (!NOT_REPLACEABLE.includes(code)) throw error
    const why = `no other file can take its place (${code}): if it is mounted alone, mount its folder instead; otherwise move it away`
    throw new UnusableDatabase(why, { cause: error })
  }
}
