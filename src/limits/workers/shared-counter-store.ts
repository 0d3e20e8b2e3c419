import type { Logger } from 'pino'
import type { CallKind, Calls } from '../../workers/calls.ts'
import type { Count, CounterKey, CounterStore } from '../counter-store.ts'
import { createFallbackCounterStore, type FallbackCounterStore } from '../fallback-counter-store.ts'
import { createMemoryCounterStore } from '../memory-counter-store.ts'
import type { NoticeType } from '../notices.ts'

/** Arrays, because they are short as JSON: each counted request sends one. */
type SentKey = readonly [type: NoticeType, rule: string, key: string]
type SentCount = readonly [count: number, resetsInMs: number]

const COUNT: CallKind<readonly [...SentKey, windowMs: number], SentCount> = { name: 'count' }
const CHECK_COUNTS: CallKind<null, void> = { name: 'check counts' }
const RESET_COUNT: CallKind<readonly [...SentKey, inMs: number], void> = { name: 'reset count' }

/** Counts in the first process, for all workers together. */
function createSharedCounterStore(firstProcess: Calls): CounterStore {
  return {
    increment: async ({ type, rule, key }, windowMs): Promise<Count> => {
      const [count, resetsInMs] = await firstProcess.ask(COUNT, [type, rule, key, windowMs])
      return { count, resetsInMs }
    },
    reset: ({ type, rule, key }, inMs = 0) =>
      firstProcess.ask(RESET_COUNT, [type, rule, key, inMs]),
  }
}

/** Long, because the first process does little else, and so only one that is stopped takes as long. */
const PATIENCE_MS = 500

const RETRY_EVERY_MS = 500

export interface WorkerCounterStoreOptions {
  readonly firstProcess: Calls
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  readonly log: Logger
}

/** Counts in the first process or, while that does not answer, in this one. */
export function createWorkerCounterStore(options: WorkerCounterStoreOptions): FallbackCounterStore {
  const { firstProcess, monotonicNow, log } = options
  return createFallbackCounterStore({
    shared: createSharedCounterStore(firstProcess),
    local: createMemoryCounterStore({ monotonicNow }),
    patienceMs: PATIENCE_MS,
    retryEveryMs: RETRY_EVERY_MS,
    // The first process is stopped. When it goes on, it answers: if it ends, so does this process.
    probe: () => firstProcess.ask(CHECK_COUNTS, null),
    onLost: err => log.warn({ err }, 'first process does not answer, limits are counted locally'),
    onBack: () => log.info('first process answers again, limits are counted there'),
  })
}

/** In the first process: counts in `store`, which must not return promises, for the worker behind `calls`. */
export function answerCounts(calls: Calls, store: CounterStore): void {
  calls.handle(COUNT, ([type, rule, key, windowMs]) => {
    const { count, resetsInMs } = store.increment({ type, rule, key }, windowMs) as Count
    return [count, resetsInMs] as const
  })
  calls.handle(CHECK_COUNTS, () => {})
  calls.handle(RESET_COUNT, ([type, rule, key, inMs]) => {
    store.reset({ type, rule, key } satisfies CounterKey, inMs)
  })
}
