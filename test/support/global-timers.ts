/** In place of `src/timers.ts`: what is global when it is called, so that a test can hold the time of the service. */

export { hrtime } from 'node:process'
export { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'

type Timers = Pick<
  typeof globalThis,
  'setImmediate' | 'setInterval' | 'setTimeout' | 'clearInterval' | 'clearTimeout' | 'performance'
>

/** Calls what has the name in `owner()`. */
const late = (owner: () => object, name: string | symbol) => {
  return (...args: unknown[]) => Reflect.apply(Reflect.get(owner(), name), owner(), args)
}

const timers = new Proxy({} as Timers, { get: (_, name) => late(() => globalThis, name) })

export const { setImmediate, setInterval, setTimeout, clearInterval, clearTimeout } = timers

export const performance = new Proxy(globalThis.performance, {
  get: (real, name) => {
    const value = Reflect.get(real, name, real)
    return typeof value === 'function' ? late(() => globalThis.performance, name) : value
  },
})
