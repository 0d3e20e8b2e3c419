import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
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

describe('locateJson finds the line of', () => {
  function lineOf(path: JsonPath) {
    const located = locateJson(TEXT)
    return 'lineOf' in located ? located.lineOf(path) : undefined
  }

  test.each<[JsonPath, number]>([
    [[], 1],
    [['bans'], 2],
    [['bans', 0], 3],
    [['bans', 0, 'name'], 3],
    [['bans', 0, 'maxretry'], 4],
    [['bans', 1], 4],
    [['bans', 1, 'name'], 5],
    [['note'], 6],
    [['escaped"'], 7],
    [['escaped"', 0], 7],
    [['escaped"', 1, 0], 8],
  ])('%j', (path, line) => {
    expect(lineOf(path)).toBe(line)
  })

  test('a missing part, as the line of the nearest part around it', () => {
    expect(lineOf(['bans', 1, 'findtime'])).toBe(4)
    expect(lineOf(['bans', 7, 'findtime'])).toBe(2)
    expect(lineOf(['nothing'])).toBe(1)
  })
})

test.each<[string, number, number]>([
  ['', 1, 1],
  [' \n ', 2, 2],
  ['{\n  "a": [\n    { "b": 5, }\n  ]\n}', 3, 15],
  ['{\n  "a": 1\n  "b": 2\n}', 3, 3],
  ['{"a": 1,\n "b" 2}', 2, 6],
  ["{\n 'a': 1}", 2, 2],
  ['// rules\n{}', 1, 1],
  ['{}\n\n{}', 3, 1],
  ['[1,\n 02]', 2, 2],
  ['[true,\n nope]', 2, 2],
  ['["a\nb"]', 1, 2],
  ['["a",\n "\\x"]', 2, 2],
  ['{"a": [1, 2}', 1, 12],
  ['{"a":\n', 2, 1],
])('locateJson finds the mistake in %j at line %d, column %d', (text, line, column) => {
  expect(() => JSON.parse(text)).toThrow()
  expect(locateJson(text)).toEqual({ wrongAt: { line, column } })
})

test('locateJson accepts the same texts as JSON.parse', () => {
  const anyJson = fc.json().map(text => JSON.stringify(JSON.parse(text), null, 1))
  const damaged = fc
    .tuple(
      anyJson,
      fc.nat(),
      fc.nat(3),
      fc.constantFrom('', ',', '}', ']', '"', '0', ':', '\n', 'x'),
    )
    .map(([text, at, cut, put]) => {
      const start = at % (text.length + 1)
      return text.slice(0, start) + put + text.slice(start + cut)
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
