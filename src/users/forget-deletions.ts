import type { UserChanges } from './user-changes.ts'

const EVERY_MS = 60_000

/** Forgets deletions once they are older than `retentionMs`, in small steps beside other work. */
export function startForgetting(options: {
  readonly changes: Pick<UserChanges, 'forgetDeletions' | 'countDeletions'>
  readonly retentionMs: number
  /** Milliseconds since the epoch. */
  readonly now: () => number
  readonly onFailure: (error: unknown) => void
}) {
  const { changes, retentionMs, now, onFailure } = options
  let kept = 0
  let hasEnded = false
  let running = work()
  const timer = setInterval(() => {
    running = running.then(work)
  }, EVERY_MS).unref()

  async function work(): Promise<void> {
    try {
      while (!hasEnded && (await changes.forgetDeletions(now() - retentionMs)));
      kept = await changes.countDeletions()
    } catch (error) {
      if (!hasEnded) onFailure(error)
    }
  }

  return {
    /** Deletions that were kept when they were last counted. */
    kept: () => kept,
    close: async () => {
      hasEnded = true
      clearInterval(timer)
      await running
    },
  }
}
