import type { Database } from 'better-sqlite3'
import type { ReadView } from './read-view.ts'

/** Keeps what was refused because its COMMIT failed from being there after a crash. */
export interface FailedCommits {
  /** To be called after a COMMIT that failed, before its writes are refused. */
  bury(): void
  /** Ends once nothing is left of them, or when it cannot be helped for now. */
  close(): Promise<void>
}

const RETRY_MS = 20

/** A failing disk may take its time over each attempt, which the event loop spends waiting: most of it is for others. */
const REST_PER_ATTEMPT = 5

const CLOSE_PATIENCE_MS = 900

/**
 * A COMMIT whose fsync fails has written its frames into the WAL already, the mark of the commit among them. SQLite
 * lets the next commit write over them; a process that dies before, however, finds them at its next start and takes
 * them for committed. So a commit that changes nothing is put over them, at once and then until it works. An attempt
 * whose own fsync fails helps too: the checksums of the frames behind it are wrong from then on.
 */
export function createFailedCommits(database: Database, view: ReadView): FailedCommits {
  // Writes a frame whatever the value was; a row that is updated to what it holds writes none.
  const value = database.pragma('user_version', { simple: true })
  const overwrite = database.prepare(`PRAGMA user_version = ${value}`)
  let timer: NodeJS.Timeout | undefined
  let onBuried: (() => void) | undefined

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
      const tookMs = performance.now() - startedAt
      timer = setTimeout(bury, Math.max(RETRY_MS, tookMs * REST_PER_ATTEMPT)).unref()
    }
  }

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
