import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const LOAD = fileURLToPath(new URL('./load.mjs', import.meta.url))

export interface LoadOptions {
  readonly port: number
  readonly connections: number
  /** The load ends with the first of these two. */
  readonly seconds?: number
  readonly requests?: number
  /** In any case continues until there was a response with each of these statuses. */
  readonly until?: readonly number[]
  readonly workload: 'read' | 'list' | 'create' | 'password' | 'mixed'
  /** Makes the e-mails of users differ between runs. */
  readonly run?: string
}

export interface LoadFigures {
  /** Number of responses by status, and of failed requests by error. */
  readonly statuses: Readonly<Record<string, number>>
  readonly seconds: number
}

/** Loads the service from another process: each connection sends its next request after a response. */
export async function load(options: LoadOptions): Promise<LoadFigures> {
  const child = fork(LOAD, [JSON.stringify({ run: '0', ...options })])
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  const [figures] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => Promise.reject(new Error(`load ended with ${code}`))),
  ])
  return figures as LoadFigures
}

/** Responses per second, without errors. */
export function goodput({ statuses, seconds }: LoadFigures): number {
  const good = Object.entries(statuses).filter(([status]) => /^[234]/.test(status))
  return Math.round(good.reduce((sum, [, count]) => sum + count, 0) / seconds)
}
