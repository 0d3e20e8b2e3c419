/** After each failure in a row; the last also after each further one. */
const STEPS_MS = [5_000, 30_000, 120_000, 600_000, 3_600_000]

const MAX_MS = 3_600_000

/** A tenth more or less, so that webhooks of one receiver do not come back at once. */
const JITTER = 0.1

interface RetryOptions {
  /** Milliseconds since the epoch. */
  readonly now: number
  /** The header of the failure (RFC 9110 10.2.3). */
  readonly retryAfter: string | undefined
  readonly random?: (() => number) | undefined
}

/** Whole milliseconds until the next try, after a failure that `failures` others came before. */
export function nextRetryMs(failures: number, options: RetryOptions): number {
  const { now, retryAfter, random = Math.random } = options
  const asked = retryAfter === undefined ? undefined : parseRetryAfter(retryAfter, now)
  if (asked !== undefined) return Math.min(asked, MAX_MS)
  const step = STEPS_MS[Math.min(failures, STEPS_MS.length - 1)] ?? MAX_MS
  return Math.round(step * (1 + JITTER * (2 * random() - 1)))
}

/** The longest wait, jitter included. */
nextRetryMs.max = Math.round(MAX_MS * (1 + JITTER))

function parseRetryAfter(text: string, now: number): number | undefined {
  const ms = /^\d{1,9}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
