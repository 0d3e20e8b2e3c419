const PARTS = 1_000_000

/**
 * The sum of numbers, each rounded to a millionth: the same in any order and grouping. A plain sum of fractions may be smaller
 * by its last digit after regrouping, and Prometheus takes a counter that decreases for one that began anew.
 */
export function addExactly(values: readonly number[]): number {
  let sum = 0
  for (const value of values) sum += Math.round(value * PARTS)
  return sum / PARTS
}
