import { expect, test } from 'vitest'
import { createEvenTimes } from '../../src/users/even-times.ts'

test('restOf makes each failure wait for the slowest kind so far', () => {
  const { restOf } = createEvenTimes()
  expect(restOf({ kind: 'usual', tookMs: 25, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'slow', tookMs: 200, runs: 1 })).toBe(0)
  expect(restOf({ kind: 'usual', tookMs: 25, runs: 1 })).toBe(175)
  expect(restOf({ kind: 'fast', tookMs: 1, runs: 1 })).toBe(199)
})

test('restOf counts the shortest time of a kind, because a busy machine makes others longer', () => {
  const { restOf } = createEvenTimes()
  restOf({ kind: 'usual', tookMs: 25, runs: 1 })
  restOf({ kind: 'usual', tookMs: 900, runs: 1 })
  restOf({ kind: 'slow', tookMs: 700, runs: 1 })
  restOf({ kind: 'slow', tookMs: 200, runs: 1 })
  expect(restOf({ kind: 'usual', tookMs: 30, runs: 1 })).toBe(170)
  expect(restOf({ kind: 'usual', tookMs: 900, runs: 1 })).toBeLessThan(0)
})

test('restOf counts each run of a password in two forms', () => {
  const { restOf } = createEvenTimes()
  restOf({ kind: 'slow', tookMs: 400, runs: 2 })
  expect(restOf({ kind: 'usual', tookMs: 50, runs: 2 })).toBe(350)
  expect(restOf({ kind: 'usual', tookMs: 25, runs: 1 })).toBe(175)
})

test('restOf keeps to a bounded number of kinds', () => {
  const { restOf } = createEvenTimes()
  for (let kind = 0; kind < 1000; kind++) restOf({ kind: `${kind}`, tookMs: kind, runs: 1 })
  expect(restOf({ kind: '0', tookMs: 0, runs: 1 })).toBe(199)
})
