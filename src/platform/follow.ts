import { clearInterval, setInterval } from './timers.ts'
export interface RepeatOptions {
  readonly work: () => Promise<void>
  readonly everyMs: number
  /** Called for the first of several failures in a row. */
  readonly onFailure: (error: unknown) => void
}

/** Does some work again and again, never twice at once: if it is slow, the next turn is left out. */
export function repeat({ work, everyMs, onFailure }: RepeatOptions) {
  let running: Promise<void> | undefined
  let isFailing = false

  async function attempt(): Promise<void> {
    try {
      await work()
      isFailing = false
    } catch (error) {
      if (!isFailing) onFailure(error)
      isFailing = true
    }
  }

  function run(): Promise<void> {
    running ??= attempt().finally(() => {
      running = undefined
    })
    return running
  }

  const timer = setInterval(run, everyMs).unref()

  return {
    /** Does the work now, unless it is being done. Resolves when that has ended, and never rejects. */
    run,

    /** Resolves when no work is being done any more. */
    close: async (): Promise<void> => {
      clearInterval(timer)
      await running
    },
  }
}

export interface FollowOptions extends Omit<RepeatOptions, 'work'> {
  /** Has another value after each change of what is followed. */
  readonly revision: () => Promise<string>
  /** Reads all of it. If it rejects, it is called again, even without a change. */
  readonly read: () => Promise<void>
}

/** Reads something that other processes may change, and then again after each change. Rejects when the first read fails. */
export async function follow({ revision, read, ...options }: FollowOptions) {
  let readRevision: string | undefined

  async function readIfChanged(): Promise<void> {
    // The revision is read before the data: a change between the two reads is then noticed next time.
    const current = await revision()
    if (current === readRevision) return
    await read()
    readRevision = current
  }

  await readIfChanged()
  return repeat({ work: readIfChanged, ...options })
}
