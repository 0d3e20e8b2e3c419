import type { FileHandle } from 'node:fs/promises'
import type { TaskOptions } from '../../database-tasks.ts'

const CHUNK_BYTES = 4 * 1024 * 1024

/** Copies all bytes of an open file into an empty one and syncs it. */
export async function copyFile(
  { from, to }: { from: FileHandle; to: FileHandle },
  { onProgress }: TaskOptions,
): Promise<void> {
  const { size: total } = await from.stat()
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let done = 0; ; ) {
    const { bytesRead } = await from.read(chunk, 0, CHUNK_BYTES, done)
    if (bytesRead === 0) break
    await to.appendFile(chunk.subarray(0, bytesRead))
    done += bytesRead
    onProgress({ done, total })
  }
  await to.sync()
}
