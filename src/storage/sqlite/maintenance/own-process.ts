import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { UnusableDatabase } from '../../unusable-database.ts'
import { asUnusable } from '../unusable-reasons.ts'

export interface OwnProcessOptions {
  /** The module of this folder that calls `answerParent`. */
  readonly program: 'check-process' | 'check-words-process' | 'compact-process'
  /** The database. */
  readonly path: string
  /** Its environment variables; those of this process if left out. */
  readonly environment?: Readonly<Record<string, string | undefined>>
  /** Called ten times a second. */
  readonly onTick: () => void
  /** Aborting it kills the process. */
  readonly signal: AbortSignal
}

/** What the process prints, as JSON. */
type Answer =
  | { readonly result: unknown }
  | { readonly refused: { readonly message: string; readonly isFault: boolean } }

const TICK_MS = 100

/** `.ts` in the sources, `.js` once built. */
const ENDING = import.meta.url.slice(-3)

/** Standard input is a pipe from the parent. It closes when the parent ends, however that ends. */
const KILL_WITH_PARENT = `
  const { Socket } = require('node:net')
  new Socket({ fd: 0 }).on('close', () => process.kill(process.pid, 'SIGKILL')).resume()`

/**
 * Runs a long SQLite call in another process and returns its result. The call blocks its thread, so here it could neither
 * show progress nor be interrupted. Throws the `UnusableDatabase` of the other process, or an `AbortError`.
 */
export async function runInOwnProcess<T>(options: OwnProcessOptions): Promise<T> {
  const { program, path, environment, onTick, signal } = options
  const file = fileURLToPath(new URL(`./${program}${ENDING}`, import.meta.url))
  const ticking = setInterval(onTick, TICK_MS)
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [file, path], {
      signal,
      killSignal: 'SIGKILL',
      ...(environment !== undefined && { env: environment }),
    })
    const answer = JSON.parse(stdout) as Answer
    if ('result' in answer) return answer.result as T
    throw new UnusableDatabase(answer.refused.message, { isFault: answer.refused.isFault })
  } catch (error) {
    // Ctrl-C in a terminal also reaches the other process, which may end before this one kills it.
    signal.throwIfAborted()
    throw error
  } finally {
    clearInterval(ticking)
  }
}

/** Prints what `work` returns, or the `UnusableDatabase` that it throws, for the parent process. */
export function answerParent<T>(work: (path: string) => T): void {
  // In a thread, because `work` blocks this one.
  new Worker(KILL_WITH_PARENT, { eval: true }).unref()
  process.stdout.write(JSON.stringify(answerOf(() => work(process.argv[2] ?? ''))))
}

function answerOf(work: () => unknown): Answer {
  try {
    return { result: work() }
  } catch (error) {
    const refusal = asUnusable(error)
    if (!(refusal instanceof UnusableDatabase)) throw error
    return { refused: { message: refusal.message, isFault: refusal.isFault } }
  }
}
