import { createPatience } from '../../platform/patience.ts'
import { sleep } from '../../platform/timers.ts'
import { type JoinedCalls, type JoinOptions, joinCalls } from '../join-calls.ts'
import type { WriteOptions } from './postgres-connections.ts'
import { isOfState, LOCK_NOT_AVAILABLE, unavailable } from './postgres-errors.ts'

/** A write throws this if another transaction held the user, or changed it meanwhile. It has changed nothing. */
export const HELD = new Error('another transaction holds a lock')

/** Reads what it needs and decides. If there is something to write, it ends with one call of `write`. */
type Attempt<T> = (write: Write) => Promise<T>

/** Writes an item: first with those of other calls, and alone when it is repeated. */
type Write = <In, Out>(joined: JoinedCalls<In, Out>, item: In) => Promise<Out>

export type ContendedWrites = ReturnType<typeof createContendedWrites>

/** From the call to the start of its last write, in milliseconds. Time in which the process stands still hardly counts. */
const BEGIN_WITHIN_MS = 1500

/** From the start of a repeated write to its answer. */
const REPEAT_MS = 450

const LOOK_MS = 50

const FIRST_PAUSE_MS = 5

const LONGEST_PAUSE_MS = 100

/** A lock that was not free in time, deadlocks, conflicts of transactions. */
const CONTENDED: readonly string[] = [LOCK_NOT_AVAILABLE, '40']

/** Bad values, constraints, and what is contended. */
const OF_ONE: readonly string[] = ['22', '23', ...CONTENDED]

/** The key of the writes that wait in the server: one at a time, so that they use one connection. */
const IN_SERVER = Symbol('in the server')

/** Runs work if there is time to begin it. */
type InTime = <T>(work: () => Promise<T>) => Promise<T>

/** Writes that other writes may hold up. */
export function createContendedWrites() {
  const patience = createPatience({ tickMs: LOOK_MS })
  /** The last work with each key. */
  const lastOf = new Map<string | symbol, Promise<unknown>>()

  /** After the earlier work with one of the keys. */
  async function inTurn<T>(keys: readonly (string | symbol)[], work: () => Promise<T>): Promise<T> {
    const earlier = keys.map(key => lastOf.get(key))
    const result = Promise.allSettled(earlier).then(work)
    for (const key of keys) lastOf.set(key, result)
    try {
      return await result
    } finally {
      for (const key of keys) if (lastOf.get(key) === result) lastOf.delete(key)
    }
  }

  async function untilFree<T>(attempt: Attempt<T>, inTime: InTime): Promise<T> {
    let keys: readonly symbol[] = []
    const again: Write = (joined, item) => inTurn(keys, () => inTime(() => joined.alone(item)))
    let next = () => inTime(() => attempt((joined, item) => joined(item)))
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
      try {
        return await next()
      } catch (error) {
        if (error !== HELD && !isOfState(error, CONTENDED)) throw error
        if (error !== HELD) keys = [IN_SERVER]
      }
      next = () => attempt(again)
      await sleep(pauseMs)
    }
  }

  return {
    /**
     * Runs `attempt` after the earlier writes of this process with one of the keys, so no two of them share a batch. While
     * other transactions hold it up, repeats it after pauses in which it uses no connection. Throws `storage_unavailable`
     * when the time is over, and `outcome_unknown` if a repeated write gets no answer.
     */
    run: <T>(keys: readonly string[], attempt: Attempt<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        let isRunning = false
        // What is begun in time ends soon by itself.
        const wait = patience.begin(BEGIN_WITHIN_MS, () => isRunning || reject(unavailable(HELD)))
        const inTime: InTime = async work => {
          if (wait.elapsedMs() >= BEGIN_WITHIN_MS) throw unavailable(HELD)
          isRunning = true
          return work().finally(() => {
            isRunning = false
          })
        }
        const done = inTurn(keys, () => untilFree(attempt, inTime))
        done.finally(wait.end).then(resolve, reject)
      }),
  }
}

/**
 * Joins the items of writes, each with the options of `write` that it needs. An error of the server that one of them may have
 * caused fails no other.
 */
export function joinWrites<In, Out>(
  run: (
    items: readonly In[],
    options: Pick<WriteOptions<unknown>, 'withinMs'>,
  ) => ReturnType<JoinOptions<In, Out>['run']>,
): JoinedCalls<In, Out> {
  return joinCalls({
    run: (items, isAlone) => run(items, isAlone ? { withinMs: REPEAT_MS } : {}),
    isOfOne: error => isOfState(error, OF_ONE),
  })
}
