import { ServiceError } from '../../errors.ts'
import { type Batches, type Closing, createBatches, type Outcome } from './batches.ts'
import type { Connections, Session } from './postgres-connections.ts'
import { sqlStateOf, unavailable } from './postgres-errors.ts'

/** A write that could not be done together with others: a lock was not free, or its values may have failed the batch. */
export const APART = Symbol('apart')

export interface WriteBatchOptions<In, Out> {
  readonly connections: Connections
  readonly closing: Closing
  /**
   * Writes all items, in one statement unless `isTransaction` says that it takes several, in an order of locks that is the same in every process. An outcome of `APART` means
   * that nothing was done and that the item shall be written on its own. With `isAlone` it waits for locks.
   */
  readonly write: (
    session: Session,
    items: readonly In[],
    isAlone: boolean,
  ) => Promise<readonly (Outcome<Out> | typeof APART)[]>
  /** Whether writing these items takes more than one statement. */
  readonly isTransaction?: (items: readonly In[]) => boolean
  /** What of an item may wait for the same lock as another item. */
  readonly keysOf: (item: In) => readonly string[]
  /** Items that may wait; an item beyond that throws `overloaded`. */
  readonly maxWaiting: number
}

/** How long an item may take in all, in milliseconds. */
const PATIENCE_MS = 1500

/** A statement may wait for one lock after the other, and each wait has the whole lock_timeout. */
const SET_TIMEOUTS = `
  SELECT set_config('lock_timeout', $1, true), set_config('statement_timeout', $1, true)`

interface Waiting<In> {
  readonly item: In
  /** By `performance.now()`. */
  readonly deadline: number
}

/**
 * Writes of one turn of the event loop share one statement. A lone write does too, and pays nothing for it. Items that one
 * item holds up, or fails, are written on their own: one at a time for each key, so that a locked row takes one connection.
 */
export function createWriteBatches<In, Out>(
  options: WriteBatchOptions<In, Out>,
): Pick<Batches<In, Out>, 'add'> {
  const { connections, closing, write, isTransaction = () => false, keysOf, maxWaiting } = options
  /** The last write on its own for each key. */
  const lastOf = new Map<string, Promise<unknown>>()
  let waitingApart = 0

  const batches = createBatches<Waiting<In>, Out>({
    closing,
    keysOf: ({ item }) => keysOf(item),
    run: async all => {
      // Behind a write that waits for its lock, an item would wait for the same lock twice.
      const together = all.filter(({ item }) => !keysOf(item).some(key => lastOf.has(key)))
      const outcomes = await writeTogether(together.map(({ item }) => item))
      const outcomeOf = new Map(together.map((one, index) => [one, outcomes[index]] as const))
      return all.map(one => {
        const outcome = outcomeOf.get(one) ?? APART
        return outcome === APART ? { value: writeInTurn(one) } : outcome
      })
    },
  })

  async function writeTogether(
    items: readonly In[],
  ): Promise<readonly (Outcome<Out> | typeof APART)[]> {
    if (items.length === 0) return []
    try {
      const work = async (session: Session) => write(session, items, false)
      const writeOptions = { countWrites: countDone }
      return isTransaction(items)
        ? await connections.transaction(work, writeOptions)
        : await connections.write(work, writeOptions)
    } catch (error) {
      if (!mayBeOfOneItem(error)) throw error
      return items.map(() => APART)
    }
  }

  /** Waits for its lock behind the writes with the same key. */
  function writeInTurn({ item, deadline }: Waiting<In>): Promise<Out> {
    const keys = keysOf(item)
    const before = keys.map(key => lastOf.get(key))
    waitingApart++
    closing.begin()
    const result = Promise.allSettled(before).then(() => writeAlone(item, deadline))
    for (const key of keys) lastOf.set(key, result)
    const forget = () => {
      waitingApart--
      closing.end()
      for (const key of keys) if (lastOf.get(key) === result) lastOf.delete(key)
    }
    result.then(forget, forget)
    return result
  }

  async function writeAlone(item: In, deadline: number): Promise<Out> {
    const outcome = await connections.transaction(
      async session => {
        const [only] = await write(endingAt(deadline, session), [item], true)
        return only
      },
      { lane: 'aside', deadline, countWrites: only => countDone([only]) },
    )
    if (outcome === undefined || outcome === APART) throw lockHeld()
    if ('error' in outcome) throw outcome.error
    return outcome.value
  }

  return {
    add: item =>
      batches.waiting() + waitingApart >= maxWaiting
        ? Promise.reject(new ServiceError('overloaded'))
        : batches.add({ item, deadline: performance.now() + PATIENCE_MS }),
  }
}

/** An item that is refused, or written later on its own, is not done. */
function countDone(outcomes: readonly (Outcome<unknown> | typeof APART | undefined)[]): number {
  return outcomes.reduce(
    (count, outcome) =>
      outcome === undefined || outcome === APART || 'error' in outcome ? count : count + 1,
    0,
  )
}

/** The session of a transaction whose statements end at `deadline`. */
function endingAt(deadline: number, session: Session): Session {
  return {
    query: async (statement, values) => {
      const remainingMs = Math.ceil(deadline - performance.now())
      if (remainingMs < 1) throw lockHeld()
      await session.query({ text: SET_TIMEOUTS }, [String(remainingMs)])
      return session.query(statement, values)
    },
  }
}

/** Bad values (22), constraints (23), conflicts and deadlocks (40), a lock that was not free. */
const ONE_ITEM: readonly string[] = ['22', '23', '40', '55P03']

/** The cause of an error that the connections have translated counts too. */
function mayBeOfOneItem(error: unknown): boolean {
  const state = sqlStateOf(error instanceof ServiceError ? error.cause : error) ?? ''
  return ONE_ITEM.some(start => state.startsWith(start))
}

function lockHeld(): ServiceError {
  return unavailable(new Error('another transaction holds a lock'))
}
