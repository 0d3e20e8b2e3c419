import { ServiceError } from '../errors.ts'
import { performance, sleep } from '../timers.ts'
import type { IndexedWords } from './index-next-users.ts'
import type { IndexingProgress, OpenStorageOptions, Storage } from './storage.ts'

export interface FillOptions {
  /** Called after each step of this process. */
  readonly onStep?: ((progress: IndexingProgress) => void) | undefined
  /** Whether the process does other work, which gets at least half of the time. */
  readonly isBeside?: boolean
  readonly signal?: AbortSignal | undefined
}

/** Between two attempts, while another process indexes. */
const OTHERS_PAUSE_MS = 50

const RETRY_MS = 1000

const REPORT_MS = 10_000

/**
 * How often to look for users without words: something else may have written them, or another process has emptied the index,
 * and was killed.
 */
const LOOK_MS = 2000

const FAILED = 'index of words cannot be built'

/** The database is locked or away, or too many writes wait. */
const PASSING = ['storage_unavailable', 'outcome_unknown', 'overloaded']

/** Indexes users until all have words. */
export async function fillWords(words: IndexedWords, options: FillOptions = {}): Promise<void> {
  const { onStep, isBeside = false, signal } = options
  while (!(await words.areComplete())) {
    signal?.throwIfAborted()
    const startedAt = performance.now()
    const step = await words.addNext()
    if (step !== undefined) onStep?.(step)
    const stepMs = isBeside ? performance.now() - startedAt : 0
    const pauseMs = step === undefined ? OTHERS_PAUSE_MS : stepMs
    // A process that does nothing else must not end meanwhile.
    if (!step?.isComplete)
      await sleep(pauseMs, undefined, { ref: !isBeside, ...(signal && { signal }) })
  }
}

/**
 * Indexes the users that lack words, beside the other work of a storage. Begins at once if progress is to be reported;
 * otherwise another process has to index them.
 */
export function createWordFiller(
  words: IndexedWords,
  {
    onIndexing,
    onWarning,
    isIdle = () => false,
  }: Pick<OpenStorageOptions, 'onIndexing' | 'onWarning'> & Partial<Pick<Storage, 'isIdle'>>,
) {
  const ending = new AbortController()
  const { signal } = ending
  const pause = (ms: number) => sleep(ms, undefined, { signal, ref: false }).catch(() => {})
  let isBehind = false
  let reportedAt = Number.NEGATIVE_INFINITY

  async function keepFilled(): Promise<void> {
    let hasWarned = false
    while (!signal.aborted) {
      try {
        if (!isIdle()) await fillWords(words, { onStep: report, isBeside: true, signal })
        isBehind = false
        hasWarned = false
        await pause(LOOK_MS)
      } catch (error) {
        if (signal.aborted || isOf(error, ['shutting_down'])) return
        isBehind = true
        if (!hasWarned && !isOf(error, PASSING)) {
          hasWarned = true
          onWarning?.(FAILED, error)
        }
        await pause(RETRY_MS)
      }
    }
  }

  function report(progress: IndexingProgress): void {
    const isEnd = progress.isComplete && isBehind
    const isDue = !progress.isComplete && performance.now() - reportedAt > REPORT_MS
    isBehind = !progress.isComplete
    if (!isEnd && !isDue) return
    reportedAt = performance.now()
    onIndexing?.(progress)
  }

  const filling = onIndexing && keepFilled()
  return {
    /** Stops where it is; the next one goes on from there. */
    end: async () => {
      ending.abort()
      await filling
    },
  }
}

function isOf(error: unknown, codes: readonly string[]): boolean {
  return error instanceof ServiceError && codes.includes(error.code)
}
