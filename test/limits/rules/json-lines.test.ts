import fc from 'fast-check'
import { expect, test } from 'vitest'
import { locateJson } from '../../../src/limits/rules/json-lines.ts'
import { SEED } from '../../support/faults.ts'

test.each<[string, number, number]>([
  ['{\n  "a": 1\n  "b": 2\n}', 3, 3],
  ['{"a": 1,\n "b" 2}', 2, 6],
  ['{}\n\n{}', 3, 1],
  ['[1,\n 02]', 2, 2],
  ['["a",\n "\\x"]', 2, 2],
  ['{"a": [1, 2}', 1, 12],
  ['{"a":\n', 2, 1],
])('locateJson finds the mistake in %j at line %d, column %d', (text, line, column) => {
  expect(locateJson(text)).toEqual({ wrongAt: { line, column } })
})

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
