import type { TaskOptions } from '../../database-tasks.ts'
import { UnusableDatabase } from '../../unusable-database.ts'
import type { Database } from '../sqlite-driver.ts'
import { IN_USE } from '../unusable-reasons.ts'

export interface CopyOptions extends TaskOptions {
  /** A path. The content of the file is replaced in one transaction. */
  readonly target: string
  /** Called once the target is locked, before anything is written to it. */
  readonly onLocked?: () => void
}

/** Takes some milliseconds, after which the progress is shown. */
const PAGES_A_STEP = 500

/** Copies a database page by page into another with SQLite's online backup. */
export async function copyPages(source: Database, options: CopyOptions): Promise<void> {
  const { target, onProgress, onLocked } = options
  const pageBytes = Number(source.pragma('page_size', { simple: true }))
  let isLocked = false
  const { totalPages } = await source.backup(target, {
    progress: ({ totalPages: total, remainingPages }) => {
      if (!isLocked) onLocked?.()
      isLocked = true
      onProgress({ done: (total - remainingPages) * pageBytes, total: total * pageBytes })
      return PAGES_A_STEP
    },
  })
  // better-sqlite3 reports a locked target as a finished copy.
  if (totalPages === 0) throw new UnusableDatabase(IN_USE)
}
