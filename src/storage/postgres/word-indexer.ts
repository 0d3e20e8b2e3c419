import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../errors.ts'
import type { IndexingProgress, OpenStorageOptions } from '../storage.ts'
import { areWordsIndexed, indexNextUsers } from './index-next-users.ts'
import type { Connections } from './postgres-connections.ts'

export interface WordIndexerOptions {
  readonly connections: Connections
  readonly onIndexing: OpenStorageOptions['onIndexing'] | undefined
  readonly onWarning: OpenStorageOptions['onWarning'] | undefined
}

/** Indexes the users that lack words, beside the other work of a storage. */
export interface WordIndexer {
  /** Begins, and waits a moment. Returns whether all users have words now. */
  catchUp(): Promise<boolean>
  /** Stops it where it is; the next one goes on from there. */
  end(): Promise<void>
}

/** How long a search waits for users that an older release has written. */
const CATCH_UP_MS = 1000

/** Between two attempts, while another process indexes. */
const OTHERS_PAUSE_MS = 50

const RETRY_MS = 1000

const REPORT_MS = 10_000

const COMPLETE: IndexingProgress = { isComplete: true, through: 0, lastId: 0 }

const FAILED = 'index of words cannot be built'

/** Begins at once if progress is to be reported, otherwise with the first search that misses words. */
export function createWordIndexer(options: WordIndexerOptions): WordIndexer {
  const { connections, onIndexing, onWarning } = options
  const ending = new AbortController()
  const { signal } = ending
  let running: Promise<boolean> | undefined
  let takesLong = false
  let reportedAt = Number.NEGATIVE_INFINITY

  function begin(): Promise<boolean> {
    running ??= indexAll()
      .catch((error: unknown) => {
        if (!signal.aborted && !isOf(error, ['shutting_down'])) onWarning?.(FAILED, error)
        return false
      })
      .finally(() => {
        running = undefined
        takesLong = false
      })
    return running
  }

  /** Takes at most half of the time of a connection. */
  async function indexAll(): Promise<boolean> {
    for (;;) {
      const startedAt = performance.now()
      const step = await tryNext(connections)
      if (typeof step === 'object') report(step)
      if (typeof step === 'object' && step.isComplete) return true
      const stepMs = performance.now() - startedAt
      const pauseMs = step === 'failed' ? RETRY_MS : step === 'busy' ? OTHERS_PAUSE_MS : stepMs
      await sleep(pauseMs, undefined, { signal, ref: false })
    }
  }

  function report(progress: IndexingProgress): void {
    const isEnd = progress.isComplete && takesLong
    const isDue = !progress.isComplete && performance.now() - reportedAt > REPORT_MS
    takesLong = !progress.isComplete
    if (!isEnd && !isDue) return
    reportedAt = performance.now()
    onIndexing?.(progress)
  }

  if (onIndexing !== undefined) begin()
  return {
    catchUp: async () => {
      if (takesLong || signal.aborted) return false
      const waiting = new AbortController()
      const late = sleep(CATCH_UP_MS, false, { signal: waiting.signal }).catch(() => false)
      try {
        return await Promise.race([begin(), late])
      } finally {
        waiting.abort()
      }
    },
    end: async () => {
      ending.abort()
      await running
    },
  }
}

/** `busy` while another process indexes, `failed` if the database cannot be used now. */
async function tryNext(connections: Connections): Promise<IndexingProgress | 'busy' | 'failed'> {
  try {
    if (await areWordsIndexed(connections)) return COMPLETE
    return (await indexNextUsers(connections)) ?? 'busy'
  } catch (error) {
    if (isOf(error, ['storage_unavailable', 'outcome_unknown'])) return 'failed'
    throw error
  }
}

function isOf(error: unknown, codes: readonly string[]): boolean {
  return error instanceof ServiceError && codes.includes(error.code)
}
