import type { HistogramCounts } from '../metrics/histogram.ts'

/** Upper bounds for the duration of a request, in seconds. */
export const DURATION_BOUNDS: readonly number[] = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
]

/** A recent request that fell into a range of durations, to find it in the log. */
export interface Exemplar {
  /** 32 hexadecimal digits, as in the header `traceparent`. */
  readonly traceId: string
  readonly seconds: number
  /** When it ended, in milliseconds since the epoch. */
  readonly at: number
}

/** The requests with one method, route and status that have ended. */
export interface RequestSeries {
  /** In upper case; `_OTHER` for a method that no route knows. */
  readonly method: string
  /** The template of a route, such as `/users/{id}`; empty for paths without a route. */
  readonly route: string
  /** 0 for a request whose client left before it was answered. */
  readonly status: number
  readonly seconds: HistogramCounts
  /** By the index of the range in `seconds.counts`. */
  readonly exemplars?: Readonly<Record<number, Exemplar>>
}

/** What one process has counted of its requests since its start. */
export interface RequestReport {
  readonly series: readonly RequestSeries[]
  /** Requests that have begun and have not ended. */
  readonly inFlight: number
  /** Requests with a valid API key, by the name of the key. */
  readonly byKey: Readonly<Record<string, number>>
}
