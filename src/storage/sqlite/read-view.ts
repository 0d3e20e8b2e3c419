import { performance, setImmediate } from '../../platform/timers.ts'
import type { Database } from './sqlite-driver.ts'
import { guardWork } from './sqlite-errors.ts'

export type ReadView = ReturnType<typeof createReadView>

/**
 * Shares one read transaction among the reads that the event loop handles after one poll.
 *
 * Without it, each read makes SQLite lock the file, compare its cache with the file and unlock it again: two system calls,
 * and 10 of the 67 µs of a GET of one user.
 *
 * A request must see all that any process had committed when its client sent it. The requests that one poll of the event
 * loop finds were sent before that poll. So a transaction that begins after the poll is recent enough for all of them, but
 * not for those of the next poll. When a client pipelines, the requests behind the first may have been sent after the poll:
 * the server calls `end` before it handles them.
 */
export function createReadView(database: Database) {
  const begin = database.prepare('BEGIN')
  const commit = database.prepare('COMMIT')
  const rollback = database.prepare('ROLLBACK')
  let isOpen = false
  let openedAt = 0

  /** Call it before a write, and before a read that must see the database as it is now. */
  function end(): void {
    if (!isOpen) return
    isOpen = false
    try {
      // A read that fails may have made SQLite give up the transaction.
      if (database.inTransaction) commit.run()
    } catch {
      // After a read that failed, COMMIT fails too. That request has its error, and the others have their answers.
      if (database.inTransaction) rollback.run()
    }
  }

  function beginIfNeeded(): void {
    const poll = countPolls()
    if (isOpen && poll !== openedAt) end()
    if (isOpen) return
    begin.run()
    isOpen = true
    openedAt = poll
    // Perhaps no further read comes, and while a transaction is open, the WAL only grows.
    setImmediate(end)
  }

  return {
    /** Runs `query` at once. It must only read. Throws what the calls of a `Storage` throw. */
    read: <T>(query: () => T): Promise<T> =>
      guardWork(database, () => {
        beginIfNeeded()
        return query()
      }),
    end,
  }
}

/** Changes with each poll of the event loop; one turn may have several polls. Takes 0.15 µs. */
function countPolls(): number {
  const { loopCount, events } = performance.nodeTiming.uvMetricsInfo
  return loopCount + events
}
