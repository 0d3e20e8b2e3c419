import { ServiceError } from '../../errors.ts'
import { sleep } from '../../timers.ts'
import { createPatience } from '../../waiting/patience.ts'
import { type JoinedCalls, type JoinOptions, joinCalls } from '../join-calls.ts'
import { isCausedBy, unavailable } from './postgres-errors.ts'

/** A write throws this if another transaction held the user, or changed it meanwhile. It has changed nothing. */
export const HELD = new Error('another transaction holds a lock')

/** Reads what it needs and decides. If there is something to write, it ends with one call of `write`. */
type Attempt<T> = (write: Write) => Promise<T>

/** Writes an item with those of other calls, or alone once the server has made it wait. Throws if it is too late for that. */
type Write = <In, Out>(joined: JoinedCalls<In, Out>, item: In) => Promise<Out>

export type ContendedWrites = ReturnType<typeof createContendedWrites>

/** From the call to the start of its last attempt, in milliseconds. Time in which the process stands still hardly counts. */
const BEGIN_WITHIN_MS = 1600

/** From the call to its answer, unless its first attempt still runs. */
const ANSWER_WITHIN_MS = 1850

const LOOK_MS = 50

const FIRST_PAUSE_MS = 5

const LONGEST_PAUSE_MS = 100

/** A lock that was not free in time, deadlocks, conflicts of transactions. */
const CONTENDED: readonly string[] = ['55P03', '40']

/** Bad values, constraints, and what is contended. */
const OF_ONE: readonly string[] = ['22', '23', ...CONTENDED]

/** The key of the writes that wait in the server: one at a time, so that they use one connection. */
const IN_SERVER = Symbol('in the server')

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

  return {
    /**
     * Runs `attempt` after the earlier writes of this process with one of the keys, so no two of them share a batch. While
     * other transactions hold it up, repeats it after pauses in which it uses no connection. Throws `storage_unavailable`
     * when the time is over, and `outcome_unknown` if a repeated write still runs soon after.
     */
    run: <T>(keys: readonly string[], attempt: Attempt<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        let isRepeated = false
        let isAlone = false
        /**
         * What runs now and may already have written. The first attempt waits for no lock, so its statements end it
         * in time.
         */
        let running: 'first attempt' | 'repeated write' | undefined
        const wait = patience.begin(ANSWER_WITHIN_MS, () => {
          if (running === undefined) reject(unavailable(HELD))
          if (running === 'repeated write') reject(unanswered())
        })
        const requireTime = () => {
          if (wait.elapsedMs() > BEGIN_WITHIN_MS) throw unavailable(HELD)
        }
        const write: Write = (joined, item) => {
          if (isRepeated) {
            requireTime()
            running = 'repeated write'
          }
          return isAlone ? joined.alone(item) : joined(item)
        }
        const begin = async () => {
          requireTime()
          if (!isRepeated) running = 'first attempt'
          try {
            return await attempt(write)
          } finally {
            isRepeated = true
            running = undefined
          }
        }
        const untilFree = async () => {
          for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, LONGEST_PAUSE_MS)) {
            try {
              return await (isAlone ? inTurn([IN_SERVER], begin) : begin())
            } catch (error) {
              if (error !== HELD && !isCausedBy(error, CONTENDED)) throw error
              isAlone ||= error !== HELD
            }
            await sleep(pauseMs)
          }
        }
        inTurn(keys, untilFree).finally(wait.end).then(resolve, reject)
      }),
  }
}

/** Joins the items of writes. An error of the server that one of them may have caused fails no other. */
export function joinWrites<In, Out>(run: JoinOptions<In, Out>['run']): JoinedCalls<In, Out> {
  return joinCalls({ run, isOfOne: error => isCausedBy(error, OF_ONE) })
}

function unanswered(): ServiceError {
  const cause = new Error('no answer after a lock that was not free')
  return new ServiceError('outcome_unknown', { cause })
}
