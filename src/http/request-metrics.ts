import {
  createHistogram,
  findRange,
  type Histogram,
  type HistogramCounts,
} from '../metrics/histogram.ts'
import { METHODS } from './actions.ts'

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
  /** Requests with a valid API key, by the name of the key. At most `MAX_KEY_NAMES` of them; the others are under `_other`. */
  readonly byKey: Readonly<Record<string, number>>
}

/** A request that has ended. */
export interface EndedRequest {
  /** As sent. */
  readonly method: string
  /** As in `RequestSeries`. */
  readonly route: string
  /** As in `RequestSeries`. */
  readonly status: number
  readonly seconds: number
  /** The name of its API key. */
  readonly key: string | undefined
  readonly traceId: string | undefined
}

/** Counts the requests of one process. */
export interface RequestMetrics {
  begin(): void
  /** Call once for each `begin`. */
  end(request: EndedRequest): void
  /** Counts a request that Node's parser refused. */
  addMalformed(status: number): void
  report(): RequestReport
}

/** No method or name of an API key begins with an underscore. */
const OTHER_METHOD = '_OTHER'
const OTHER_KEYS = '_other'

const MAX_KEY_NAMES = 200

const KNOWN_METHODS = new Set([...METHODS.map(method => method.toUpperCase()), 'HEAD', 'OPTIONS'])

interface Recorded {
  readonly method: string
  readonly route: string
  readonly status: number
  readonly seconds: Histogram
  exemplars: Record<number, Exemplar> | undefined
}

type ByStatus = Map<number, Recorded>

/** `now` is in milliseconds since the epoch. */
export function createRequestMetrics({
  now = Date.now,
}: {
  now?: () => number
} = {}): RequestMetrics {
  // Nested, because a key of several parts would have to be put together for each request.
  const byRoute = new Map<string, Map<string, ByStatus>>()
  const byKey = new Map<string, number>()
  let inFlight = 0

  function seriesOf(route: string, method: string, status: number): Recorded {
    const found = byRoute.get(route)?.get(method)?.get(status)
    if (found !== undefined) return found
    const seconds = createHistogram(DURATION_BOUNDS)
    const series: Recorded = { method, route, status, seconds, exemplars: undefined }
    const byMethod = getOrAdd(byRoute, route, () => new Map<string, ByStatus>())
    getOrAdd(byMethod, method, () => new Map<number, Recorded>()).set(status, series)
    return series
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

    end: ({ method, route, status, seconds, key, traceId }) => {
      inFlight--
      const series = seriesOf(route, KNOWN_METHODS.has(method) ? method : OTHER_METHOD, status)
      series.seconds.observe(seconds)
      if (key !== undefined) addKey(key)
      if (traceId === undefined) return
      series.exemplars ??= {}
      series.exemplars[findRange(DURATION_BOUNDS, seconds)] = { traceId, seconds, at: now() }
    },

    addMalformed: status => seriesOf('', OTHER_METHOD, status).seconds.observe(0),

    report: () => ({
      series: [...byRoute.values()]
        .flatMap(byMethod => [...byMethod.values()])
        .flatMap(byStatus => [...byStatus.values()])
        .map(({ seconds, exemplars, ...labels }) => ({
          ...labels,
          seconds: seconds.read(),
          ...(exemplars && { exemplars: { ...exemplars } }),
        })),
      inFlight,
      byKey: Object.fromEntries(byKey),
    }),
  }
}

function getOrAdd<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const found = map.get(key)
  if (found !== undefined) return found
  const created = create()
  map.set(key, created)
  return created
}
