import fc from 'fast-check'
import { expect, test } from 'vitest'
import { canonicalJson } from '../../src/users/canonical-json.ts'
import { SEED } from '../support/faults.ts'

function withKeysReversed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withKeysReversed)
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value).map(([key, item]) => [key, withKeysReversed(item)])
  return Object.fromEntries(entries.reverse())
}

test('canonicalJson is JSON of the same value, whatever the order of its keys', () => {
  fc.assert(
    fc.property(fc.jsonValue(), value => {
      const text = canonicalJson(value)
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      expect(canonicalJson(withKeysReversed(value))).toBe(text)
    }),
    { seed: SEED },
  )
})

test('canonicalJson differs for values that differ', () => {
  const values = ['[]', '{}', '[[]]', '[{}]', '{"a":[]}', '{"a":{}}', '["a"]', '"a"', '1', '"1"']
  const more = ['null', '["null"]', '[null]', '[1,2]', '[12]', '{"a":1,"b":2}', '{"a":{"b":2}}']
  const texts = [...values, ...more].map(text => canonicalJson(JSON.parse(text)))
  expect(new Set(texts).size).toBe(texts.length)
})
