import { describe, expect, test } from 'vitest'
import { createNewcomers } from '../../../src/http/server/newcomers.ts'

const LONG_TURN_MS = 50
const SHORT_TURN_MS = 1

describe('createNewcomers', () => {
  test('accepts nobody while turns of the event loop are short', () => {
    const newcomers = createNewcomers()
    newcomers.endTurn(SHORT_TURN_MS)
    newcomers.add(1000)
    expect(newcomers.isAccepting(1000)).toBe(false)
  })

  test('accepts after a long turn, and then serves requests before it accepts again', () => {
    const newcomers = createNewcomers()
    newcomers.endTurn(LONG_TURN_MS)
    newcomers.add(1000)
    expect(newcomers.isAccepting(1000)).toBe(true)
    newcomers.endTurn(LONG_TURN_MS)
    newcomers.add(1030)
    expect(newcomers.isAccepting(1030)).toBe(false)
    newcomers.add(1050)
    expect(newcomers.isAccepting(1050)).toBe(true)
  })

  test.each(['endTurn', 'endEmptyTurn'] as const)(
    'has short slices until three turns brought no connection, by %s',
    end => {
      const newcomers = createNewcomers()
      const longMs = newcomers.sliceMs()
      newcomers.endTurn(LONG_TURN_MS)
      newcomers.add(1000)
      for (let turn = 0; turn < 3; turn++) {
        expect(newcomers.sliceMs()).toBeLessThan(longMs)
        expect(newcomers.isAccepting(1000)).toBe(true)
        newcomers[end](LONG_TURN_MS)
      }
      expect(newcomers.sliceMs()).toBe(longMs)
      expect(newcomers.isAccepting(1000)).toBe(false)
    },
  )
})
