import { counted, grouped, inWords, notify, type Terminal } from './terminal.ts'

/**
 * Reports that this run has done `done` units, and earlier runs `earlier`. `share`, if it is known, is how much of the whole both
 * are together, from 0 to 1.
 */
export type Progress = (done: number, share?: number, earlier?: number) => void

const LINE_MS = 5000

/** Progress as a line every `LINE_MS` on standard error, so that the output of the command stays clean. */
export function createProgress(terminal: Pick<Terminal, 'stderr'>, unit: string): Progress {
  const startedAt = performance.now()
  let shownAt = startedAt
  return (done, share, earlier = 0) => {
    const now = performance.now()
    if (now - shownAt < LINE_MS) return
    shownAt = now
    const seconds = (now - startedAt) / 1000
    const ownShare = share && (share * done) / (done + earlier)
    const parts = [
      share !== undefined && `${Math.floor(share * 100)} %`,
      counted(done, unit),
      `${grouped(done / seconds)} ${unit}/s`,
      share && ownShare && `${inWords((seconds / ownShare) * (1 - share))} left`,
    ]
    notify(terminal, parts.filter(part => typeof part === 'string').join(', '))
  }
}

export interface TaskOptions {
  /** What is counted, for example `rows`. */
  readonly unit: string
  /**
   * Whether the work obeys its signal. Otherwise signals keep their default action, which ends the process at once: while
   * SQLite works on this thread, nothing else could.
   */
  readonly isAbortable?: boolean
  /** A line for standard error after an interruption. */
  readonly hint?: string
}

export interface Task {
  readonly progress: Progress
  /** Aborted by the first SIGINT or SIGTERM. A second one ends the process, which is the default action. */
  readonly signal: AbortSignal
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const

/**
 * Runs the work of a long command. At its end, restores the default action of signals. If the work throws because it was
 * aborted, returns 128 plus the number of the signal, as in shells.
 */
export async function runTask<T>(
  terminal: Terminal,
  { unit, isAbortable = true, hint }: TaskOptions,
  work: (task: Task) => Promise<T>,
): Promise<T | number> {
  const progress = createProgress(terminal, unit)
  const controller = new AbortController()
  let exitCode = 0
  const onSignal = (_name: string, number: number) => {
    exitCode = 128 + number
    controller.abort()
    release()
  }
  const release = () => {
    for (const name of SIGNALS) process.off(name, onSignal)
  }
  if (isAbortable) for (const name of SIGNALS) process.on(name, onSignal)
  try {
    return await work({ progress, signal: controller.signal })
  } catch (error) {
    if (exitCode === 0 || (error as Error).name !== 'AbortError') throw error
    if (hint !== undefined) notify(terminal, hint)
    return exitCode
  } finally {
    release()
  }
}
