/** In place of `src/timers.ts`: what is global when it is called, so that a test can hold the time of the service. */

import { setTimeout as realSleep } from 'node:timers/promises'
import { afterAll, beforeAll } from 'vitest'

export { hrtime } from 'node:process'
export { setImmediate as nextTurn } from 'node:timers/promises'

type Timers = Pick<
  typeof globalThis,
  'setImmediate' | 'setInterval' | 'setTimeout' | 'clearInterval' | 'clearTimeout' | 'performance'
>

/** How many times as often as in production the service looks for what others have changed. Its pauses are as much shorter. */
let pace = 1

/** In this file the service looks for changes twenty times as often. Timeouts stay as they are. */
export function hurryPolls(): void {
  beforeAll(() => {
    pace = 20
  })
  afterAll(() => {
    pace = 1
  })
}

/** Calls what has the name in `owner()`. */
const late = (owner: () => object, name: string | symbol) => {
  return (...args: unknown[]) => Reflect.apply(Reflect.get(owner(), name), owner(), args)
}

const timers = new Proxy({} as Timers, { get: (_, name) => late(() => globalThis, name) })

export const { setImmediate, setTimeout, clearInterval, clearTimeout } = timers

export const setInterval = (work: () => void, ms: number) => timers.setInterval(work, ms / pace)

export const sleep: typeof realSleep = (ms = 1, ...rest) => realSleep(ms / pace, ...rest)

export const performance = new Proxy(globalThis.performance, {
  get: (real, name) => {
    const value = Reflect.get(real, name, real)
    return typeof value === 'function' ? late(() => globalThis.performance, name) : value
  },
})
