import { clearTimeout, performance, setTimeout } from '../../platform/timers.ts'
import type { ReadView } from './read-view.ts'
import type { Database } from './sqlite-driver.ts'

const RETRY_MS = 20

/** The pause after an attempt is this many times as long as the attempt, which blocks the event loop. */
const REST_PER_ATTEMPT = 5

const CLOSE_PATIENCE_MS = 900

/**
 * Makes sure that a transaction whose COMMIT failed does not reappear after a crash.
 *
 * A COMMIT whose fsync fails has already written its frames into the WAL, including the commit mark. The next commit
 * overwrites them. If the process dies before that, the next start finds the frames and treats them as committed. So a
 * commit that changes nothing is written over them, at once and then until it succeeds. An attempt whose own fsync fails
 * helps too: the checksums of the frames after it no longer match. Only in a WAL that begins again, such an attempt ends with
 * the fsync of the header, before any frame. That WAL has nothing that is committed, and is cut off without an fsync.
 *
 * To answer `outcome_unknown` instead would not be enough: reads would show that nothing was changed, for as long as the process
 * lives and nobody writes, and after a crash it would be there.
 */
export function createFailedCommits(database: Database, view: ReadView) {
  // Writes a frame even for the same value. Updating a row to its own values writes none.
  const value = database.pragma('user_version', { simple: true })
  const overwrite = database.prepare(`PRAGMA user_version = ${value}`)
  let timer: NodeJS.Timeout | undefined
  let onBuried: (() => void) | undefined

  /** Call it after a COMMIT that failed, before its writes are answered with an error. */
  function bury(): void {
    clearTimeout(timer)
    timer = undefined
    const startedAt = performance.now()
    try {
      view.end()
      overwrite.run()
      onBuried?.()
    } catch {
      if (!database.open) return
      cutEmptyWal()
      const tookMs = performance.now() - startedAt
      timer = setTimeout(bury, Math.max(RETRY_MS, tookMs * REST_PER_ATTEMPT)).unref()
    }
  }

  function cutEmptyWal(): void {
    try {
      database.pragma('wal_checkpoint(TRUNCATE)')
    } catch {
      // A WAL that is not empty is written into the database first, and the disk may still fail.
    }
  }

  /** Resolves once no such transaction is left, or after 0.9 s. */
  async function close(): Promise<void> {
    if (timer === undefined) return
    await new Promise<void>(resolve => {
      onBuried = resolve
      setTimeout(resolve, CLOSE_PATIENCE_MS)
    })
    clearTimeout(timer)
  }

  return { bury, close }
}
