import { ServiceError } from '../../errors.ts'
import type { UserPage, UserQuery } from '../../users/user-repository.ts'
import { type Sliced, workUntil } from './sliced.ts'
import { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { createWideList } from './wide-list.ts'
import { createWordIndexCheck } from './word-index.ts'
import { createWordSearch } from './word-search.ts'

/** Lists that take longer than one turn of the event loop should. */
export interface LongLists {
  /**
   * Lists the users of one state of the database: that of the time at which its turn comes, so it has all that was committed before
   * the call. Other requests are handled in between. Throws `overloaded` if too many wait or it takes too long,
   * `words_unavailable` if the index lacks users at that time, and `shutting_down` after `close`.
   */
  list(query: UserQuery): Promise<UserPage>
  /** Ends all lists at once. */
  close(): void
}

/** How long a list may hold the event loop at a time. */
export const SLICE_MS = 3

/** More would wait too long: one of them may take seconds. */
const MAX_WAITING = 20

/** From the call on. Clients and proxies give up after some time, and a list that nobody waits for keeps others waiting. */
const MAX_LIST_MS = 20_000

const CACHE_KIB = 4000

/**
 * One list is made at a time, so that together they take at most half of the time of the thread, with a connection of its own,
 * so that it sees one state of the database while the other connection writes. The WAL grows as long as it runs.
 */
export function createLongLists(database: Database): LongLists {
  let last: Promise<unknown> = Promise.resolve()
  let waiting = 0
  let isClosed = false
  let snapshot: Database | undefined

  async function run(query: UserQuery, deadline: number): Promise<UserPage> {
    requireTime(deadline)
    snapshot = new Database(database.name, { readonly: true, timeout: 0 })
    try {
      snapshot.pragma(`cache_size = -${CACHE_KIB}`)
      snapshot.exec('BEGIN')
      const slices = begin(snapshot, query)
      for (;;) {
        const page = workUntil(slices, performance.now() + SLICE_MS)
        if (page !== undefined) return page
        await new Promise(resolve => setImmediate(resolve))
        requireTime(deadline)
      }
    } finally {
      snapshot?.close()
      snapshot = undefined
    }
  }

  function begin(users: Database, query: UserQuery): Sliced<UserPage> {
    if (query.words.length === 0) return createWideList(users)(query)
    if (!createWordIndexCheck(users)()) throw new ServiceError('words_unavailable')
    return createWordSearch(users)(query)
  }

  function requireTime(deadline: number): void {
    if (isClosed) throw new ServiceError('shutting_down')
    if (performance.now() > deadline) throw new ServiceError('overloaded')
  }

  return {
    list: async query => {
      if (waiting >= MAX_WAITING) throw new ServiceError('overloaded')
      waiting++
      const deadline = performance.now() + MAX_LIST_MS
      const page = last.then(() => run(query, deadline))
      last = page.catch(() => {})
      try {
        return await page
      } catch (error) {
        throw isClosed ? new ServiceError('shutting_down') : translateSqliteError(error)
      } finally {
        waiting--
      }
    },
    close: () => {
      isClosed = true
      snapshot?.close()
      snapshot = undefined
    },
  }
}
