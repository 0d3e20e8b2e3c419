/** How often each range of values was observed. */
export interface HistogramCounts {
  /** One number for each bound: values above the bound before it, up to and with this one. The last number is of the values above all bounds. */
  readonly counts: readonly number[]
  readonly sum: number
}

export type Histogram = ReturnType<typeof createHistogram>

/** Counts values in ranges. `bounds` are their upper bounds, in ascending order. */
export function createHistogram(bounds: readonly number[]) {
  const counts = new Array<number>(bounds.length + 1).fill(0)
  let sum = 0
  return {
    /** Returns the index of the value's range. */
    observe: (value: number) => {
      let index = 0
      while (index < bounds.length && value > (bounds[index] as number)) index++
      counts[index] = (counts[index] as number) + 1
      sum += value
      return index
    },
    /** A copy of the counts since the start. */
    read: (): HistogramCounts => ({ counts: [...counts], sum }),
  }
}

/** How many values were observed. */
export function totalOf({ counts }: Pick<HistogramCounts, 'counts'>): number {
  return counts.reduce((total, count) => total + count, 0)
}
