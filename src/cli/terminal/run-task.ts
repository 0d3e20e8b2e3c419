import { createProgress, type Progress, type ProgressOptions } from './progress.ts'
import { notify, type Terminal } from './terminal.ts'

export interface TaskOptions extends Pick<ProgressOptions, 'unit'> {
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
 * Runs the work of a long command. At its end, clears the progress bar and restores the default action of signals. If the
 * work throws because it was aborted, returns 128 plus the number of the signal, as in shells.
 */
export async function runTask<T>(
  terminal: Terminal,
  { unit, isAbortable = true, hint }: TaskOptions,
  work: (task: Task) => Promise<T>,
): Promise<T | number> {
  const progress = createProgress(terminal, { unit })
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
    progress.end()
    if (hint !== undefined) notify(terminal, hint)
    return exitCode
  } finally {
    progress.end()
    release()
  }
}
