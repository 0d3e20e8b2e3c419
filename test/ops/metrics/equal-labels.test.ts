import { expect, test } from 'vitest'
import { sameForEqual } from '../../../src/ops/metrics/equal-labels.ts'

test('equal labels are the same object', () => {
  const one = sameForEqual({ type: 'track', rule: 'a' })
  expect(sameForEqual({ type: 'track', rule: 'a' })).toBe(one)
  expect(one).toEqual({ type: 'track', rule: 'a' })
})

test.each([
  [{ rule: 'a' }, { rule: 'b' }],
  [{ rule: 'a' }, { key: 'a' }],
  [{ rule: '' }, {}],
  [
    { rule: 'ab', key: '' },
    { rule: 'a', key: 'b' },
  ],
  [{ rule: 'akey=b' }, { rule: 'a', key: 'b' }],
  [{ rule: 'akey=1:b' }, { rule: 'a', key: 'b' }],
])('%j and %j stay different', (one, other) => {
  expect(sameForEqual(one)).toEqual(one)
  expect(sameForEqual(other)).toEqual(other)
})

test('labels that come and go take no more and more memory', () => {
  const first = sameForEqual({ rule: 'first' })
  for (let count = 0; count < 10_000; count++) sameForEqual({ rule: `rule ${count}` })
  const again = sameForEqual({ rule: 'first' })
  expect(again).toEqual(first)
  expect(again).not.toBe(first)
})
