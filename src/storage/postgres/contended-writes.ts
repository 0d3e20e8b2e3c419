import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../errors.ts'
import { sqlStateOf, unavailable } from './postgres-errors.ts'

/** An attempt returns this if another transaction held the user, or changed it meanwhile. It has changed nothing. */
export const HELD = Symbol('held')

/** Writes that other writes may hold up. */
export interface ContendedWrites {
  /**
   * Runs `attempt` after the earlier writes of this process with one of the keys. While other transactions hold it up, repeats
   * it after pauses in which it uses no connection. Throws `storage_unavailable` when the time is over.
   */
  run<T>(
    keys: readonly string[],
    attempt: (deadline: number) => Promise<T | typeof HELD>,
  ): Promise<T>
  /** Whether a write with one of the keys runs or waits. */
  isBusy(keys: readonly string[]): boolean
}

/** From the call to the end of the last attempt, in milliseconds. */
const PATIENCE_MS = 1900

/** What is left for an attempt at least: it may wait for a lock within the server, up to the `lock_timeout` of its lane. */
const ATTEMPT_MS = 400

const FIRST_PAUSE_MS = 5

const MAX_PAUSE_MS = 100

/** A lock that was not free in time, deadlocks, conflicts of transactions. */
const CONTENDED: readonly string[] = ['55P03', '40']

/** No key of a write. */
const IN_SERVER = ''

export function createContendedWrites(): ContendedWrites {
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

  async function untilFree<T>(
    attempt: (deadline: number) => Promise<T | typeof HELD>,
    deadline: number,
  ): Promise<T> {
    const begin = async () => {
      if (performance.now() > deadline - ATTEMPT_MS) throw lockHeld()
      return attempt(deadline)
    }
    let waitedInServer = false
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      try {
        // Those that the server made wait do so one at a time, so that they use one connection.
        const result = await (waitedInServer ? inTurn([IN_SERVER], begin) : begin())
        if (result !== HELD) return result
      } catch (error) {
        if (!hasState(error, CONTENDED)) throw error
        waitedInServer = true
      }
      await sleep(pauseMs)
    }
  }

  return {
    run: (keys, attempt) => {
      const deadline = performance.now() + PATIENCE_MS
      return inTurn(keys, () => untilFree(attempt, deadline))
    },
    isBusy: keys => keys.some(key => lastOf.has(key)),
  }
}

/** Whether an error of the server, or the one that the connections have made of it, has one of these codes or classes. */
export function hasState(error: unknown, states: readonly string[]): boolean {
  const state = sqlStateOf(error instanceof ServiceError ? error.cause : error) ?? ''
  return states.some(start => state.startsWith(start))
}

function lockHeld(): ServiceError {
  return unavailable(new Error('another transaction holds a lock'))
}
