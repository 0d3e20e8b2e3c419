/** After each failure in a row; the last also after each further one. */
const STEPS_MS = [5_000, 30_000, 120_000, 600_000, 3_600_000]

const MAX_MS = 3_600_000

/** The shortest wait that a receiver can ask for. Without one, its clock or a mistake would make each failure lead to the next. */
const MIN_MS = 1000

/** A tenth more or less, so that webhooks of one receiver do not come back at once. */
const JITTER = 0.1

/** With jitter. */
export const LONGEST_RETRY_MS = Math.round(MAX_MS * (1 + JITTER))

/**
 * Whole milliseconds until the next try, after a failure that `failures` others came before. `retryAfter` is the header of the
 * failure (RFC 9110 10.2.3), `now` in milliseconds since the epoch.
 */
export function nextRetryMs(failures: number, retryAfter: string | undefined, now: number): number {
  const asked = retryAfter === undefined ? undefined : parseRetryAfter(retryAfter, now)
  if (asked !== undefined) return Math.min(Math.max(asked, MIN_MS), MAX_MS)
  const step = STEPS_MS[Math.min(failures, STEPS_MS.length - 1)] ?? MAX_MS
  return Math.round(step * (1 + JITTER * (2 * Math.random() - 1)))
}

/** Seconds, or a date that begins with a day of the week: `Date.parse` takes `120.5` and `-5` for dates, too. */
function parseRetryAfter(text: string, now: number): number | undefined {
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  const ms = /^[A-Z]/.test(text) ? Date.parse(text) - now : Number.NaN
  return Number.isNaN(ms) ? undefined : ms
}
