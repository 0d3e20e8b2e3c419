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
  const sameJson = fc.property(fc.jsonValue(), value => {
    const text = canonicalJson(value)
    expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
    expect(canonicalJson(withKeysReversed(value))).toBe(text)
  })
  fc.assert(sameJson, { seed: SEED })
})
