import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const LOAD = fileURLToPath(new URL('./load.mjs', import.meta.url))

export interface LoadOptions {
  readonly port: number
  readonly connections: number
  /** Until the end of the first of these. */
  readonly seconds?: number
  readonly requests?: number
  readonly workload: 'read' | 'list' | 'create' | 'password' | 'mixed'
  /** Other addresses of users in each run. */
  readonly run?: string
}

export interface LoadFigures {
  /** How many answers had each status, or ended with which error. */
  readonly statuses: Readonly<Record<string, number>>
  readonly seconds: number
}

/** So many connections that each ask again once they are answered, in a process of its own. */
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

/** Answers a second that were no errors. */
export function goodput({ statuses, seconds }: LoadFigures): number {
  const good = Object.entries(statuses).filter(([status]) => /^[234]/.test(status))
  return Math.round(good.reduce((sum, [, count]) => sum + count, 0) / seconds)
}
