/** `npm run test:faults` runs the short form, and the long one with `FAULTS=long`. */
export const isLong = process.env.FAULTS === 'long'

/**
 * The same seed repeats all random choices of a test: `FAULTS_SEED=… FAULTS=long npm run test:faults`.
 * The short form always makes the same choices, because a change must not fail by a fault that was there before it.
 */
export const SEED = Number(process.env.FAULTS_SEED || 856919337)

/** Chooses a value by the form of the test, such as how often something is done. */
export function inForm<T>({ short, long }: { short: T; long: T }): T {
  return isLong ? long : short
}

/** Numbers from 0 to below 1, the same for the same seed: mulberry32. */
export function createRandom(seed = SEED): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Prints measurements, in the long form only: no test asserts a time. */
export function report(what: string, figures: Readonly<Record<string, unknown>>): void {
  if (!isLong) return
  console.log(`${what} (seed ${SEED}): ${JSON.stringify(figures)}`)
}

/** The value below which a given share of all values are. A share of 0.99 is the 99th percentile. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
