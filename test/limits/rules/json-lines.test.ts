import fc from 'fast-check'
import { expect, test } from 'vitest'
import { locateJson } from '../../../src/limits/rules/json-lines.ts'
import { SEED } from '../../support/faults.ts'

test('locateJson accepts the same texts as JSON.parse', () => {
  const anyJson = fc.json().map(text => JSON.stringify(JSON.parse(text), null, 1))
  const put = fc.constantFrom('', ',', '}', ']', '"', '0', ':', '\n', 'x')
  const damaged = fc.tuple(anyJson, fc.nat(), fc.nat(3), put).map(([text, at, cut, inserted]) => {
    const start = at % (text.length + 1)
    return text.slice(0, start) + inserted + text.slice(start + cut)
  })
  fc.assert(
    fc.property(fc.oneof(anyJson, damaged), text => {
      expect('lineOf' in locateJson(text)).toBe(isJson(text))
    }),
    { numRuns: 2000, seed: SEED },
  )
})

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
