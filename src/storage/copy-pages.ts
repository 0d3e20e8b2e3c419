import type { Database } from 'better-sqlite3'
import type { WorkOptions, WorkProgress } from './check-database.ts'
import { DatabaseRefused } from './database-refused.ts'

export interface CopyOptions extends WorkOptions {
  /** A path, whose content is replaced in one transaction. */
  readonly target: string
  readonly step: WorkProgress['step']
  /** Called once the target is locked, before anything is written to it. */
  readonly onLocked?: () => void
}

/** Some milliseconds, after which a signal is heard. */
const PAGES_A_STEP = 500

/** Copies a database page by page into another, by SQLite's online backup. */
export async function copyPages(source: Database, options: CopyOptions): Promise<void> {
  const { target, step, onProgress, signal, onLocked } = options
  const pageBytes = Number(source.pragma('page_size', { simple: true }))
  let isLocked = false
  const { totalPages } = await source.backup(target, {
    progress: ({ totalPages: total, remainingPages }) => {
      signal.throwIfAborted()
      if (!isLocked) onLocked?.()
      isLocked = true
      onProgress({
        step,
        bytes: { done: (total - remainingPages) * pageBytes, total: total * pageBytes },
      })
      return PAGES_A_STEP
    },
  })
  // better-sqlite3 takes a target that is locked for one that is done.
  if (totalPages === 0) throw new DatabaseRefused('another process keeps it locked')
}
