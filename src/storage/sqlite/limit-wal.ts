import type { Database } from './sqlite-driver.ts'

/** More than an import leaves in the WAL: 80 MB. */
const MAX_WAL_PAGES = 20_000

const CHECK_EVERY_MS = 1000

/** How long the thread may wait for readers. A reader keeps its view for one turn of its event loop. */
const READERS_PATIENCE_MS = 300

interface CheckpointRow {
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

  function check(): void {
    const before = changes
    changes = changesOf(database)
    if (changes === before) return
    try {
      const [row] = database.pragma('wal_checkpoint(PASSIVE)') as [CheckpointRow]
      if (row.log <= maxPages) return
      database.pragma(`busy_timeout = ${READERS_PATIENCE_MS}`)
      database.pragma('wal_checkpoint(RESTART)')
    } catch {
      // The disk fails. Writes report that; the next check tries again.
    } finally {
      database.pragma('busy_timeout = 0')
    }
  }

  const timer = setInterval(check, everyMs).unref()
  return { end: () => clearInterval(timer) }
}

/** A number that differs once this connection has changed a row. */
function changesOf(database: Database): unknown {
  return database.prepare('SELECT total_changes()').pluck().get()
}
