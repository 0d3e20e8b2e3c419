import { expect } from 'vitest'
import type { Asked } from '../support/keep-alive-client.ts'
import type { RawAnswer } from '../support/raw-http.ts'

/** A request, and a check of its response: throws if the model expects another one, and updates the model. */
export interface Step {
  readonly asked: Asked
  check(answer: RawAnswer): void
}

/** Random choices. */
export interface Dice {
  /** A whole number from 0 to below `count`. */
  below(count: number): number
  /** True in this many of a hundred cases. */
  in100(share: number): boolean
  pick<T>(from: readonly T[]): T
}

export function createDice(random: () => number): Dice {
  const below = (count: number) => Math.floor(random() * count)
  return {
    below,
    in100: share => below(100) < share,
    pick: <T>(from: readonly T[]) => from[below(from.length)] as T,
  }
}

/** Few names, so that many are equal, some of them only when case is ignored. */
export const NAMES = [
  ...['Ann', 'ANN', 'ann', 'Bob', 'bob', 'Ähn', 'ähn', 'Sam', 'ſam', 'zed', '😀', '\uffee'],
  ...[
    'µm',
    'Μm',
    'μm',
    'ϑ"',
    'θ"',
    'Θ"',
    'back\\slash',
    "Ann-Zoë O'Bob",
    'Sam Ähnlich',
    'ＺＯＥ 9',
  ],
]

export function expectStatus({ status, body }: RawAnswer, expected: number): void {
  expect(status, body).toBe(expected)
}
