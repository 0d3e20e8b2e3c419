import { type FileHandle, open } from 'node:fs/promises'
import type { TaskOptions } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import { EMPTY, explainErrors } from '../unusable-reasons.ts'
import { examine } from './find-faults.ts'
import { leaveWal } from './partial-database.ts'

export interface CopyOptions extends TaskOptions {
  readonly backup: string
}

const CHUNK_BYTES = 4 * 1024 * 1024

/**
 * Copies a backup, which is only read, into the empty file `partial` and checks it there. Returns the names of the migrations
 * that it still lacks. Throws `UnusableDatabase`, about the backup if that is the cause.
 */
export async function copyVerified(
  partial: string,
  { backup, onProgress }: CopyOptions,
): Promise<readonly string[]> {
  const from = await explainErrors(() => open(backup, 'r'), backup)
  try {
    await explainErrors(() => copyFile(from, { partial, onProgress }))
  } finally {
    await from.close()
  }
  return explainErrors(async () => {
    leaveWal(partial)
    const { faults, applied, pending } = await examine(partial)
    if (faults[0] !== undefined) throw new UnusableDatabase(faults[0])
    if (applied === 0) throw new UnusableDatabase(EMPTY)
    return pending
  }, backup)
}

async function copyFile(
  from: FileHandle,
  { partial, onProgress }: TaskOptions & { readonly partial: string },
): Promise<void> {
  const to = await open(partial, 'r+')
  try {
    const { size: total } = await from.stat()
    const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
    for (let done = 0; ; ) {
      const { bytesRead } = await from.read(chunk, 0, CHUNK_BYTES, done)
      if (bytesRead === 0) return
      await to.appendFile(chunk.subarray(0, bytesRead))
      done += bytesRead
      onProgress({ done, total })
    }
  } finally {
    await to.close()
  }
}
