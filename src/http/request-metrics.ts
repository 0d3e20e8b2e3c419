import { createHistogram, type Histogram, type HistogramCounts } from '../metrics/histogram.ts'

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

/** What tells the counted requests apart. */
export type RequestLabels = {
  /** In upper case; `_OTHER` for a method that no route knows. */
  readonly method: string
  /** The template of a route, such as `/users/{id}`; empty for paths without a route. */
  readonly route: string
  /** 0 for a request whose client left before it was answered. */
  readonly status: number
}

/** The requests with these labels that have ended. */
export interface RequestSeries {
  /** The same object in each report. */
  readonly labels: RequestLabels
  readonly seconds: HistogramCounts
  /** By the index of the range in `seconds.counts`. */
  readonly exemplars: ReadonlyMap<number, Exemplar>
}

/** A request that has ended; its method is as it was sent. */
export interface EndedRequest extends RequestLabels {
  readonly seconds: number
  /** The name of its API key. */
  readonly key: string | undefined
  readonly traceId: string | undefined
}

/** Counts the requests of a service. */
export type RequestMetrics = ReturnType<typeof createRequestMetrics>

/** No method or name of an API key begins with an underscore. */
const OTHER_METHOD = '_OTHER'
const OTHER_KEYS = '_other'

const MAX_KEY_NAMES = 200

const KNOWN_METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

interface Recorded {
  readonly labels: RequestLabels
  readonly seconds: Histogram
  readonly exemplars: Map<number, Exemplar>
}

/** `now` is in milliseconds since the epoch. */
export function createRequestMetrics({ now = Date.now }: { now?: () => number } = {}) {
  const recorded = new Map<string, Recorded>()
  const byKey = new Map<string, number>()
  let inFlight = 0

  function seriesOf(method: string, route: string, status: number): Recorded {
    const name = `${method} ${status} ${route}`
    const known = recorded.get(name)
    if (known !== undefined) return known
    const seconds = createHistogram(DURATION_BOUNDS)
    const added = { labels: { method, route, status }, seconds, exemplars: new Map() }
    recorded.set(name, added)
    return added
  }

  function addKey(name: string): void {
    const isNamed = byKey.has(name) || byKey.size < MAX_KEY_NAMES
    const key = isNamed ? name : OTHER_KEYS
    byKey.set(key, (byKey.get(key) ?? 0) + 1)
  }

  return {
    begin: () => {
      inFlight++
    },

    /** Call once for each `begin`. */
    end: ({ method, route, status, seconds, key, traceId }: EndedRequest) => {
      inFlight--
      const series = seriesOf(KNOWN_METHODS.has(method) ? method : OTHER_METHOD, route, status)
      const range = series.seconds.observe(seconds)
      if (traceId !== undefined) series.exemplars.set(range, { traceId, seconds, at: now() })
      if (key !== undefined) addKey(key)
    },

    /** Counts a request that Node's parser refused. */
    addMalformed: (status: number) => void seriesOf(OTHER_METHOD, '', status).seconds.observe(0),

    /** What has been counted since the start. */
    report: () => {
      const series: readonly RequestSeries[] = Array.from(recorded.values(), one => ({
        ...one,
        seconds: one.seconds.read(),
      }))
      return {
        series,
        /** Requests that have begun and have not ended. */
        inFlight,
        /** Requests with a valid API key, by its name. At most `MAX_KEY_NAMES` names; other keys are under `_other`. */
        byKey: Object.fromEntries(byKey),
      }
    },
  }
}
