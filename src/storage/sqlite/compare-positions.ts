import type { Position } from '../../users/user-repository.ts'

/** The order of sort keys and ids in SQLite: negative if `one` comes first. */
export function comparePositions(one: Position, other: Position): number {
  return compareCodePoints(one.key, other.key) || one.id - other.id
}

/** JavaScript compares halves of characters, and so puts those beyond U+FFFF before some others. */
function compareCodePoints(one: string, other: string): number {
  if (one === other) return 0
  const length = Math.min(one.length, other.length)
  for (let index = 0; index < length; index++) {
    const [a, b] = [one.charCodeAt(index), other.charCodeAt(index)]
    if (a !== b) return inOrder(a) - inOrder(b)
  }
  return one.length - other.length
}

/** A number for a UTF-16 unit that puts surrogates after all other units. */
function inOrder(unit: number): number {
  return unit >= 0xd800 && unit <= 0xdfff ? unit + 0x10000 : unit
}
