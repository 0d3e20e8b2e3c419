import { performance as nodePerformance } from 'node:perf_hooks'
import nodeTimers from 'node:timers'
import nodePromises from 'node:timers/promises'

/**
 * Node's timers and clocks, taken once: the fake timers of a test, which replace the global ones and those of the modules, do
 * not stop the service.
 */
export const { setImmediate, setInterval, setTimeout, clearInterval, clearTimeout } = nodeTimers
export const { setImmediate: nextTurn, setTimeout: sleep } = nodePromises
export const performance = nodePerformance
export const { hrtime } = process
