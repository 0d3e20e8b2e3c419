import { setTimeout as sleep } from 'node:timers/promises'
import { ServiceError } from '../../errors.ts'
import type { IndexingProgress } from '../storage.ts'
import type { Database } from './sqlite-driver.ts'
import { translateSqliteError } from './sqlite-errors.ts'
import { createWordIndex, type WordIndex } from './word-index.ts'
import type { WriteQueue } from './write-queue.ts'

export interface WordBuilderOptions {
  readonly database: Database
  readonly writes: WriteQueue
  readonly onIndexing: (progress: IndexingProgress) => void
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
}

/** Builds the index of words beside the other work of a storage. */
export interface WordBuilder {
  /** Stops it where it is; the next start goes on from there. */
  end(): Promise<void>
}

/** Adding this many takes about 5 ms, and reads wait meanwhile. */
const USERS_A_STEP = 500

const REPORT_MS = 10_000

const RETRY_MS = 1000

/** How often to look whether another process has emptied the index. If that one was killed, nobody else fills it. */
const LOOK_MS = 2000

const FAILED = 'index of words cannot be built'

/** Builds the index whenever it lacks users. It takes at most half of the time of the thread. */
export function startWordBuilder(options: WordBuilderOptions): WordBuilder {
  const { onWarning } = options
  const ending = new AbortController()
  const ended = keepBuilt(options, ending.signal).catch((error: unknown) => {
    const isStopped = error instanceof ServiceError && error.code === 'shutting_down'
    if (!ending.signal.aborted && !isStopped) onWarning?.(FAILED, error)
  })
  return {
    end: () => {
      ending.abort()
      return ended
    },
  }
}

async function keepBuilt(options: WordBuilderOptions, signal: AbortSignal): Promise<void> {
  const { database } = options
  const index = createWordIndex(database)
  for (;;) {
    if (lacksUsers(index)) await build(options, index, signal)
    // No other process can reach a database in memory.
    if (database.memory) return
    await sleep(LOOK_MS, undefined, { signal, ref: false })
  }
}

function lacksUsers(index: WordIndex): boolean {
  try {
    return index.lacksUsers()
  } catch (error) {
    if (mayPass(translateSqliteError(error))) return false
    throw error
  }
}

async function build(
  { writes, onIndexing }: WordBuilderOptions,
  index: WordIndex,
  signal: AbortSignal,
): Promise<void> {
  let reportedAt = Number.NEGATIVE_INFINITY
  for (;;) {
    const startedAt = performance.now()
    const step = await addNext(writes, index)
    if (step !== undefined) {
      const { isComplete } = step
      if (isComplete || performance.now() - reportedAt > REPORT_MS) {
        reportedAt = performance.now()
        onIndexing(step)
      }
      if (isComplete) return
    }
    const pauseMs = step === undefined ? RETRY_MS : performance.now() - startedAt
    await sleep(pauseMs, undefined, { signal, ref: false })
  }
}

/** Undefined if it must be tried again. */
async function addNext(
  { run }: WriteQueue,
  index: WordIndex,
): Promise<IndexingProgress | undefined> {
  try {
    return await run(() => index.addNext(USERS_A_STEP))
  } catch (error) {
    if (mayPass(error)) return undefined
    throw error
  }
}

function mayPass(error: unknown): boolean {
  return error instanceof ServiceError && ['storage_unavailable', 'overloaded'].includes(error.code)
}
