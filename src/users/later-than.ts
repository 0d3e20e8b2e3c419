import { MAX_SHOWN_MS } from '../http/instant.ts'
import { usedUp } from './used-up.ts'

/**
 * The time of a change: the current time, or one millisecond after `previous` if the clock stands still or went back.
 * `now` is in milliseconds since the epoch. Throws `storage_damaged` for a time after the year 9999.
 */
export function laterThan(previous: string, now: number): string {
  const ms = Math.max(now, Date.parse(previous) + 1)
  if (ms > MAX_SHOWN_MS) throw usedUp('times')
  return new Date(ms).toISOString()
}
