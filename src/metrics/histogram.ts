/** How often each range of values was observed. */
export interface HistogramCounts {
  /** One number for each bound: values above the bound before it, up to and with this one. The last number is of the values above all bounds. */
  readonly counts: readonly number[]
  readonly sum: number
}

/** Counts values in ranges. */
export interface Histogram {
  /** Returns the index of the value's range. */
  observe(value: number): number
  /** A copy of the counts since the start. */
  read(): HistogramCounts
}

/** `bounds` are the upper bounds of the ranges, in ascending order. */
export function createHistogram(bounds: readonly number[]): Histogram {
  const counts = new Array<number>(bounds.length + 1).fill(0)
  let sum = 0
  return {
    observe: value => {
      let index = 0
      while (index < bounds.length && value > (bounds[index] as number)) index++
      counts[index] = (counts[index] as number) + 1
      sum += value
      return index
    },
    read: () => ({ counts: [...counts], sum }),
  }
}

/** How many values were observed. */
export function totalOf({ counts }: Pick<HistogramCounts, 'counts'>): number {
  return counts.reduce((total, count) => total + count, 0)
}

/**
 * The value below which the share `q` (0 to 1) of all values lies, linear within its range; the highest bound for values above
 * all bounds. `undefined` without values.
 */
export function quantileOf(
  counts: readonly number[],
  bounds: readonly number[],
  q: number,
): number | undefined {
  const total = totalOf({ counts })
  if (total === 0) return undefined
  const rank = q * total
  let below = 0
  for (const [index, count] of counts.entries()) {
    if (count > 0 && below + count >= rank) {
      const lower = bounds[index - 1] ?? 0
      const upper = bounds[index]
      return upper === undefined ? lower : lower + ((upper - lower) * (rank - below)) / count
    }
    below += count
  }
  return bounds.at(-1)
}
