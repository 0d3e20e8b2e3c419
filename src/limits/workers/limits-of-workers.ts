import type { Logger } from 'pino'
import type { Calls } from '../../workers/calls.ts'
import { createMemoryCounterStore } from '../memory-counter-store.ts'
import { createBansOfWorkers } from './bans-of-workers.ts'
import { answerCounts } from './shared-counter-store.ts'
import { createLinesOfWorkers } from './shared-rule-lines.ts'

export interface LimitsOfWorkersOptions {
  /** The log for lines about what a worker does. */
  readonly logOf: (worker: number) => Logger
  /** Milliseconds of a clock that never goes back. It measures the windows of all workers. */
  readonly monotonicNow: () => number
}

/** What the first process does for the limits of all workers. It needs no rules, and does nothing until it is asked. */
export interface LimitsOfWorkers {
  /** Handles the counts, bans and log lines of a worker that has just been started. */
  answer(calls: Calls, worker: number): void
  /** Call it when a worker has ended and its calls are closed. */
  remove(worker: number): void
}

export function createLimitsOfWorkers(options: LimitsOfWorkersOptions): LimitsOfWorkers {
  const counters = createMemoryCounterStore(options)
  const bans = createBansOfWorkers(options.monotonicNow)
  const lines = createLinesOfWorkers(options)
  return {
    answer: (calls, worker) => {
      answerCounts(calls, counters)
      bans.answer(calls, worker)
      lines.answer(calls, worker)
    },
    remove: bans.remove,
  }
}
