import type { Database } from './sqlite-driver.ts'

/** More than an import leaves in the WAL: 80 MB. */
const MAX_WAL_PAGES = 20_000

const CHECK_EVERY_MS = 1000

/** How long the thread may wait for readers. A reader keeps its view for one turn of its event loop. */
const READERS_PATIENCE_MS = 300

/** A backup reads for seconds. Holding up writes every second would not help then. */
const MAX_PAUSE_MS = 60_000

interface CheckpointRow {
  /** 1 if readers were in the way. */
  readonly busy: 0 | 1
  /** Pages in the WAL, also those that are already in the file. */
  readonly log: number
}

/**
 * Keeps the WAL from growing while other processes read without a pause. SQLite starts the WAL again from its beginning only
 * at a moment when nobody reads from it, which may never come by itself. So when the WAL is long, writes are held up until
 * the readers have moved on. Blocks the thread meanwhile.
 */
export function limitWal(
  database: Database,
  { maxPages = MAX_WAL_PAGES, everyMs = CHECK_EVERY_MS } = {},
): { end(): void } {
  let changes = changesOf(database)
  let pauseMs = everyMs
  let timer = setTimeout(check, pauseMs).unref()

  function check(): void {
    pauseMs = wasInVain() ? Math.min(2 * pauseMs, MAX_PAUSE_MS) : everyMs
    timer = setTimeout(check, pauseMs).unref()
  }

  /** Returns whether writes were held up, but readers did not move on. */
  function wasInVain(): boolean {
    const before = changes
    changes = changesOf(database)
    if (changes === before) return false
    try {
      if (checkpoint('PASSIVE').log <= maxPages) return false
      database.pragma(`busy_timeout = ${READERS_PATIENCE_MS}`)
      return checkpoint('RESTART').busy === 1
    } catch {
      // The disk fails. Writes report that; the next check tries again.
      return false
    } finally {
      database.pragma('busy_timeout = 0')
    }
  }

  function checkpoint(mode: 'PASSIVE' | 'RESTART'): CheckpointRow {
    const [row] = database.pragma(`wal_checkpoint(${mode})`) as [CheckpointRow]
    return row
  }

  return { end: () => clearTimeout(timer) }
}

/** A number that differs once this connection has changed a row. */
function changesOf(database: Database): unknown {
  return database.prepare('SELECT total_changes()').pluck().get()
}
