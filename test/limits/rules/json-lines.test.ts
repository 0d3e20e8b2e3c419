import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type JsonPath, locateJson } from '../../../src/limits/rules/json-lines.ts'
import { SEED } from '../../support/faults.ts'

const TEXT = `{
  "bans": [
    { "name": "a",
      "maxretry": 0 }, {
      "name": "b" }
  ], "note": "}\\n{",
  "esc\\u0061ped\\"": [1,
    [2]]
}
`

test.each<[JsonPath, number]>([
  [['bans', 0, 'maxretry'], 4],
  [['bans', 1, 'name'], 5],
  [['note'], 6],
  [['escaped"', 1, 0], 8],
  // What is missing has the line of the nearest part around it.
  [['bans', 1, 'findtime'], 4],
  [['nothing'], 1],
])('locateJson finds the line of %j', (path, line) => {
  const located = locateJson(TEXT)
  expect('lineOf' in located && located.lineOf(path)).toBe(line)
})

test.each<[string, number, number]>([
  [' \n ', 2, 2],
  ['{\n  "a": 1\n  "b": 2\n}', 3, 3],
  ['{"a": 1,\n "b" 2}', 2, 6],
  ['{}\n\n{}', 3, 1],
  ['[1,\n 02]', 2, 2],
  ['[true,\n nope]', 2, 2],
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
