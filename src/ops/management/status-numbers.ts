import { DURATION_BOUNDS, type RequestSeries } from '../../http/request-metrics.ts'
import { quantileOf, totalOf } from '../../metrics/histogram.ts'

/** Requests by class of status; every class is present. */
export function countByClass(series: readonly RequestSeries[]): Record<string, number> {
  const counts: Record<string, number> = { '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0, aborted: 0 }
  for (const { labels, seconds } of series) {
    const name = labels.status === 0 ? 'aborted' : `${Math.floor(labels.status / 100)}xx`
    counts[name] = (counts[name] ?? 0) + totalOf(seconds)
  }
  return counts
}

/** How many of all these requests fell into each range of durations. */
export function durationsOf(series: readonly RequestSeries[]): readonly number[] {
  return Array.from({ length: DURATION_BOUNDS.length + 1 }, (_, range) =>
    series.reduce((sum, { seconds }) => sum + (seconds.counts[range] ?? 0), 0),
  )
}

/** The duration that the share `q` (0 to 1) of requests did not exceed, in milliseconds; `null` without requests. */
export function quantileMs(durations: readonly number[], q: number): number | null {
  const seconds = quantileOf(durations, DURATION_BOUNDS, q)
  return seconds === undefined ? null : rounded(seconds * 1000)
}

/** The sum over all names. */
export function sumOf(counts: Readonly<Record<string, number>>): number {
  return totalOf({ counts: Object.values(counts) })
}

/** To three digits after the point, because more only lengthen the response. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000
}
