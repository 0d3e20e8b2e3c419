import type { HistorySample, ServiceStatus } from '../../src/ops/management/service-status.ts'

/** What the page shows. */
export interface View {
  readonly status: ServiceStatus
  /** The last 15 minutes, the oldest first. */
  readonly samples: readonly HistorySample[]
  /** The time of the service, in milliseconds since the epoch. */
  readonly now: number
  /** How much a number of the status grew in a second, over the last minute; `undefined` until that is known. */
  perSecond(numberIn: (status: ServiceStatus) => number | undefined): number | undefined
}

export interface State {
  /** Takes an answer in. Returns whether it comes from a service that was started since the last one. */
  accept(status: ServiceStatus): boolean
  /** The time of the newest sample. */
  newest(): string | undefined
  /** `undefined` before the first answer. */
  view(): View | undefined
}

const KEPT_MS = 15 * 60_000
const RATE_MS = 60_000

interface Received {
  readonly status: ServiceStatus
  /** By a clock of the browser that does not jump. */
  readonly at: number
}

export function createState(): State {
  let received: readonly Received[] = []
  let samples: readonly HistorySample[] = []

  function accept(status: ServiceStatus): boolean {
    const last = received.at(-1)?.status
    const isRestarted = last !== undefined && last.started_at !== status.started_at
    if (isRestarted) {
      received = []
      samples = []
    }
    const at = performance.now()
    received = [...received.filter(one => at - one.at <= RATE_MS), { status, at }]
    samples = joinSamples(samples, status)
    return isRestarted
  }

  function view(): View | undefined {
    const first = received[0]
    const last = received.at(-1)
    if (first === undefined || last === undefined) return undefined
    const perSecond: View['perSecond'] = numberIn => {
      const before = numberIn(first.status)
      const after = numberIn(last.status)
      if (before === undefined || after === undefined || first === last) return undefined
      return (Math.max(0, after - before) * 1000) / (last.at - first.at)
    }
    const now = Date.parse(last.status.now) + performance.now() - last.at
    return { status: last.status, samples, now, perSecond }
  }

  return { accept, newest: () => samples.at(-1)?.at, view }
}

/** Without those that are too old, and those of the future that a clock leaves behind when it is set back. */
function joinSamples(
  known: readonly HistorySample[],
  { now, history }: ServiceStatus,
): readonly HistorySample[] {
  const nowMs = Date.parse(now)
  const newest = known.at(-1)?.at ?? ''
  const added = history.samples.filter(({ at }) => at > newest)
  return [...known, ...added].filter(({ at }) => {
    const age = nowMs - Date.parse(at)
    return age >= 0 && age <= KEPT_MS
  })
}

/** A sum over the samples of the last ten seconds, as a rate for each second. */
export function recentRate(
  { samples }: Pick<View, 'samples'>,
  numberIn: (sample: HistorySample) => number,
): number | undefined {
  const recent = samples.slice(-5)
  const seconds = recent.reduce((sum, sample) => sum + sample.seconds, 0)
  if (seconds === 0) return undefined
  return recent.reduce((sum, sample) => sum + numberIn(sample), 0) / seconds
}

/** All requests that ended in a sample. */
export function requestsIn({ by_status }: HistorySample): number {
  return Object.values(by_status).reduce((sum, count) => sum + count, 0)
}
