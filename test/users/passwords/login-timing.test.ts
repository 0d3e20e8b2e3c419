import { expect, test } from 'vitest'
import { createEvenTimes } from '../../../src/users/passwords/login-timing.ts'

test('restOf makes each failure wait for the slowest kind, by the shortest time of each kind', () => {
  const { restOf } = createEvenTimes()
  expect(restOf({ kind: 'usual', tookMs: 25, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'slow', tookMs: 700, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'slow', tookMs: 200, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'usual', tookMs: 25, runs: 1 })).toBe(175)
  expect(restOf({ kind: 'fast', tookMs: 1, runs: 1 })).toBe(199)
  // A password in two forms is computed twice.
  expect(restOf({ kind: 'usual', tookMs: 50, runs: 2 })).toBe(350)
})

test('restOf follows the load of the machine, but not what held up one verification', () => {
  const { restOf } = createEvenTimes()
  restOf({ kind: 'slow', tookMs: 200, runs: 1 })
  restOf({ kind: 'usual', tookMs: 25, runs: 1 })
  const busy = { kind: 'usual', tookMs: 50, runs: 1 }
  for (let failure = 0; failure < 100; failure++) restOf(busy)
  expect(restOf(busy)).toBeCloseTo(2 * 200 - 50, 0)
  for (let failure = 0; failure < 100; failure++) restOf({ ...busy, tookMs: 25 })
  restOf({ ...busy, tookMs: 60_000 })
  expect(restOf({ ...busy, tookMs: 25 })).toBeLessThan(275)
})
