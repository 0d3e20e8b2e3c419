import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const PROBER = fileURLToPath(new URL('./prober.mjs', import.meta.url))

export interface ProbeFigures {
  /** Number of responses by status, and of failed requests by error. */
  readonly statuses: Readonly<Record<string, number>>
  readonly count: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export interface Probe {
  /** Resolves after the first response. */
  readonly started: Promise<unknown>
  stop(): Promise<ProbeFigures>
}

/** A client in another process that requests `url` again and again. */
export function startProbe(
  url: string,
  { pauseMs = 5, keepAlive = true }: { pauseMs?: number; keepAlive?: boolean } = {},
): Probe {
  const child = fork(PROBER, [url, String(pauseMs), String(keepAlive)])
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const started = once(child, 'message')
  return {
    started,
    stop: async () => {
      await started
      const figures = once(child, 'message')
      child.send('stop')
      return (await figures)[0] as ProbeFigures
    },
  }
}
