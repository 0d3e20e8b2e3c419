import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { CheckOutcome } from './check-process.ts'
import { DatabaseRefused } from './database-refused.ts'
import type { Examination } from './find-faults.ts'
import { requireThere } from './inspect.ts'

/** How far a long work has come. */
export interface WorkProgress {
  readonly step: 'copy' | 'check' | 'keep' | 'replace'
  /** Of a step whose end is known. */
  readonly bytes?: { readonly done: number; readonly total: number }
}

/** What somebody who waits for a long work has in hand. */
export interface WorkOptions {
  readonly onProgress: (progress: WorkProgress) => void
  /** Ends the work, which then throws an `AbortError` and has changed nothing. */
  readonly signal: AbortSignal
}

/** The ending of this file tells whether it was built. */
const CHECK_PROCESS = fileURLToPath(
  new URL(`./check-process${import.meta.url.slice(-3)}`, import.meta.url),
)

const TICK_MS = 100

/**
 * Looks through a whole database, also one that is in use. In a process of its own, because SQLite does so in one go,
 * which takes seconds for a million users and could neither be ended nor told of meanwhile.
 * Throws `DatabaseRefused` for what cannot be read or is no database of this service.
 */
export async function checkDatabase(
  path: string,
  { onProgress, signal }: WorkOptions,
): Promise<Examination> {
  requireThere(path)
  const ticking = setInterval(() => onProgress({ step: 'check' }), TICK_MS)
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [CHECK_PROCESS, path], {
      signal,
      killSignal: 'SIGKILL',
    })
    const outcome = JSON.parse(stdout) as CheckOutcome
    if ('examination' in outcome) return outcome.examination
    const { message, isFault } = outcome.refused
    throw new DatabaseRefused(message, { isFault })
  } finally {
    clearInterval(ticking)
  }
}
