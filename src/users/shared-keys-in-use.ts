import { createPatientWaits } from '../waiting/patient-waits.ts'
import type { CallKind, Calls } from '../workers/calls.ts'
import type { KeysInUse } from './keys-in-use.ts'

const CLAIM_KEY: CallKind<string, boolean> = { name: 'claim key' }
const RELEASE_KEY: CallKind<string, void> = { name: 'release key' }

/** How long the first process may take. Then the repository decides alone, which refuses the later one of two creates. */
const PATIENCE_MS = 1000

/** In a worker: the keys of the requests of all workers, which the first process keeps. */
export function createSharedKeysInUse(firstProcess: Calls): KeysInUse {
  const waits = createPatientWaits(PATIENCE_MS)
  return {
    claim: key => waits.wait(firstProcess.ask(CLAIM_KEY, key), true),
    release: key => waits.wait(firstProcess.ask(RELEASE_KEY, key), undefined),
  }
}

/** In the first process: the keys of the requests of all workers. */
export interface KeysOfWorkers {
  /** Handles the keys of a worker that has just been started. */
  answer(calls: Calls, worker: number): void
  /** Call it when a worker has ended: its requests have ended too. */
  remove(worker: number): void
}

export function createKeysOfWorkers(): KeysOfWorkers {
  /** Which worker uses a key. */
  const users = new Map<string, number>()
  return {
    answer: (calls, worker) => {
      calls.handle(CLAIM_KEY, key => {
        if (users.has(key)) return false
        users.set(key, worker)
        return true
      })
      calls.handle(RELEASE_KEY, key => {
        if (users.get(key) === worker) users.delete(key)
      })
    },
    remove: worker => {
      for (const [key, user] of users) if (user === worker) users.delete(key)
    },
  }
}
