import type { FileHandle } from 'node:fs/promises'
import type { TaskOptions, TaskProgress } from '../../database-tasks.ts'

const CHUNK_BYTES = 4 * 1024 * 1024

/** Copies all bytes of an open file into an empty one and syncs it. */
export async function copyFile(
  { from, to, step }: { from: FileHandle; to: FileHandle; step: TaskProgress['step'] },
  { onProgress, signal }: TaskOptions,
): Promise<void> {
  const { size: total } = await from.stat()
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES)
  for (let done = 0; ; ) {
    signal.throwIfAborted()
    const { bytesRead } = await from.read(chunk, 0, CHUNK_BYTES, done)
    if (bytesRead === 0) break
    await to.appendFile(chunk.subarray(0, bytesRead))
    done += bytesRead
    onProgress({ step, bytes: { done, total } })
  }
  await to.sync()
}
