import { expect, test } from 'vitest'
import { keepLabels } from '../../../src/ops/metrics/keep-labels.ts'

test('equal labels of the next scrape are the same object', () => {
  const first = keepLabels('equal')({ type: 'track', rule: 'a' }, 0)
  expect(first).toEqual({ type: 'track', rule: 'a' })
  expect(keepLabels('equal')({ type: 'track', rule: 'a' }, 0)).toBe(first)
})

test.each([
  [{ rule: 'a' }, { rule: 'b' }],
  [{ rule: 'a' }, { key: 'a' }],
  [{ rule: 'a' }, { rule: 'a', key: 'b' }],
  [{ rule: 'a', key: 'b' }, { rule: 'a' }],
  [{ rule: '' }, {}],
  [{ le: 1 }, { le: '1' }],
])('%j and then %j stay different', (one, other) => {
  const keep = keepLabels('different')
  expect(keep(one, 0)).toEqual(one)
  expect(keep(other, 0)).toEqual(other)
})

test('the samples of a metric, and those of metrics, stay apart', () => {
  const keep = keepLabels('apart')
  expect([keep({ rule: 'a' }, 0), keep({ rule: 'b' }, 1)]).toEqual([{ rule: 'a' }, { rule: 'b' }])
  expect(keepLabels('other')({ rule: 'c' }, 0)).toEqual({ rule: 'c' })
  expect(keepLabels('apart')({ rule: 'a' }, 0)).toEqual({ rule: 'a' })
})
