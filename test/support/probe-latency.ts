import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const PROBER = fileURLToPath(new URL('./prober.mjs', import.meta.url))

export interface ProbeFigures {
  /** How many answers had each status, or ended with which error. */
  readonly statuses: Readonly<Record<string, number>>
  readonly count: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export interface Probe {
  stop(): Promise<ProbeFigures>
}

/** A client in a process of its own that asks for `url` one time after another. */
export function startProbe(
  url: string,
  { pauseMs = 5, keepAlive = true }: { pauseMs?: number; keepAlive?: boolean } = {},
): Probe {
  const child = fork(PROBER, [url, String(pauseMs), String(keepAlive)])
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  return {
    stop: async () => {
      const figures = once(child, 'message')
      child.send('stop')
      return (await figures)[0] as ProbeFigures
    },
  }
}
