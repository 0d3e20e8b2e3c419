import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../errors.ts'
import { createPatience } from '../../waiting/patience.ts'
import { isCausedBy, unavailable } from './postgres-errors.ts'

/** An attempt returns this if another transaction held the user, or changed it meanwhile. It has changed nothing. */
export const HELD = Symbol('held')

type Attempt<T> = (isAlone: boolean) => Promise<T | typeof HELD>

export type ContendedWrites = ReturnType<typeof createContendedWrites>

/** From the call to the last attempt, in milliseconds. Time in which the process stands still hardly counts. */
const PATIENCE_MS = 1600

/** From the call to the answer, if the server stops answering the last attempt. */
const MAX_ANSWER_MS = 1850

const LOOK_MS = 50

const FIRST_PAUSE_MS = 5

const MAX_PAUSE_MS = 100

/** A lock that was not free in time, deadlocks, conflicts of transactions. */
const CONTENDED: readonly string[] = ['55P03', '40']

/** Bad values, constraints, and what is contended. */
const OF_ONE: readonly string[] = ['22', '23', ...CONTENDED]

/** The key of those that wait in the server. No write has it. */
const IN_SERVER = ''

/** Writes that other writes may hold up. */
export function createContendedWrites() {
  const patience = createPatience({ tickMs: LOOK_MS })
  /** The last write with each key. */
  const lastOf = new Map<string, Promise<unknown>>()

  async function inTurn<T>(keys: readonly string[], work: () => Promise<T>): Promise<T> {
    const earlier = keys.map(key => lastOf.get(key))
    const result = Promise.allSettled(earlier).then(work)
    for (const key of keys) lastOf.set(key, result)
    try {
      return await result
    } finally {
      for (const key of keys) if (lastOf.get(key) === result) lastOf.delete(key)
    }
  }

  async function untilFree<T>(attempt: Attempt<T>, isOver: () => boolean): Promise<T> {
    let isAlone = false
    const begin = async () => {
      if (isOver()) throw lockHeld()
      return attempt(isAlone)
    }
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      try {
        // Those that the server made wait do so one at a time, so that they use one connection.
        const result = await (isAlone ? inTurn([IN_SERVER], begin) : begin())
        if (result !== HELD) return result
      } catch (error) {
        if (!isCausedBy(error, CONTENDED)) throw error
        isAlone = true
      }
      await sleep(pauseMs)
    }
  }

  return {
    /**
     * Runs `attempt` after the earlier writes of this process with one of the keys. While other transactions hold it up, repeats
     * it after pauses in which it uses no connection. Throws `storage_unavailable` when the time is over. `isAlone` tells an
     * attempt that others must not share its statement, because the server may make it wait for a lock. Throws `outcome_unknown`
     * if an attempt still runs soon after.
     */
    run: <T>(keys: readonly string[], attempt: Attempt<T>): Promise<T> => {
      let isOver = false
      let hasBegun = false
      const begin: Attempt<T> = isAlone => {
        hasBegun = true
        return attempt(isAlone)
      }
      const wait = patience.begin(PATIENCE_MS, () => {
        isOver = true
      })
      return new Promise<T>((resolve, reject) => {
        const cause = new Error('no answer after a lock that was not free')
        const last = patience.begin(MAX_ANSWER_MS, () =>
          reject(hasBegun ? new ServiceError('outcome_unknown', { cause }) : lockHeld()),
        )
        inTurn(keys, () => untilFree(begin, () => isOver))
          .finally(last.end)
          .then(resolve, reject)
      }).finally(wait.end)
    },
  }
}

/** Whether one write of a statement may have made it fail. */
export function isOfOneWrite(error: unknown): boolean {
  return isCausedBy(error, OF_ONE)
}

function lockHeld(): ServiceError {
  return unavailable(new Error('another transaction holds a lock'))
}
