import fc from 'fast-check'
import { expect, test } from 'vitest'
import { locateJson } from '../../../src/platform/json-lines.ts'
import { SEED } from '../../support/faults.ts'

test('locateJson finds the line of each member, whatever its value is, and none twice', () => {
  const text = fc.string({ unit: 'binary' })
  fc.assert(
    fc.property(fc.dictionary(text, fc.jsonValue()), object => {
      const members = Object.entries(object).map(
        ([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`,
      )
      const { lineOf, repeated } = locateJson(`{\n${members.join(',\n')}\n}`)
      const lines = Object.keys(object).map(name => lineOf([name]))
      expect(lines).toEqual(members.map((_, index) => index + 2))
      expect(repeated).toEqual([])
    }),
    { numRuns: 1000, seed: SEED },
  )
})
