import { ServiceError } from '../../errors.ts'
import { sleep } from '../../timers.ts'
import { createPatience } from '../../waiting/patience.ts'
import { isCausedBy, unavailable } from './postgres-errors.ts'

/** An attempt returns this if another transaction held the user, or changed it meanwhile. It has changed nothing. */
export const HELD = Symbol('held')

type Attempt<T> = (turn: Turn) => Promise<T | typeof HELD>

/** One attempt of a write. */
export interface Turn {
  /** Whether others must not share its statement, because the server may make it wait for a lock. */
  readonly isAlone: boolean
  /** Call it before a statement that writes. Throws `storage_unavailable` if it is too late for that. */
  beginWrite(): void
}

interface Call {
  /** Whether no further attempt may begin. */
  isOver: boolean
  /** What may have written. The first attempt has waited for no lock, and ends as its statements do. */
  running: 'first attempt' | 'repeated write' | undefined
}

export type ContendedWrites = ReturnType<typeof createContendedWrites>

/** From the call to the last attempt, in milliseconds. Time in which the process stands still hardly counts. */
const PATIENCE_MS = 1600

/** From the call to the answer, unless its first attempt still runs. */
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

  async function untilFree<T>(attempt: Attempt<T>, call: Call): Promise<T> {
    let isAlone = false
    let isRepeated = false
    const requireTime = () => {
      if (call.isOver) throw lockHeld()
    }
    const beginWrite = () => {
      if (!isRepeated) return
      requireTime()
      call.running = 'repeated write'
    }
    const begin = async () => {
      requireTime()
      if (!isRepeated) call.running = 'first attempt'
      try {
        return await attempt({ isAlone, beginWrite })
      } finally {
        call.running = undefined
        isRepeated = true
      }
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
     * it after pauses in which it uses no connection. Throws `storage_unavailable` when the time is over, and `outcome_unknown`
     * if a repeated write still runs soon after.
     */
    run: <T>(keys: readonly string[], attempt: Attempt<T>): Promise<T> => {
      const call: Call = { isOver: false, running: undefined }
      const wait = patience.begin(PATIENCE_MS, () => {
        call.isOver = true
      })
      return new Promise<T>((resolve, reject) => {
        const last = patience.begin(MAX_ANSWER_MS, () => {
          if (call.running === undefined) reject(lockHeld())
          if (call.running === 'repeated write') reject(writeUnanswered())
        })
        inTurn(keys, () => untilFree(attempt, call))
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

function writeUnanswered(): ServiceError {
  const cause = new Error('no answer after a lock that was not free')
  return new ServiceError('outcome_unknown', { cause })
}
