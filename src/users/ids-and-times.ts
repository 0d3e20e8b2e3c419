import { ServiceError } from '../errors.ts'
import { MAX_SHOWN_MS } from '../http/instant.ts'

/** The largest id. SQLite allows larger ones, but a JSON number does not show them exactly. */
export const MAX_ID = Number.MAX_SAFE_INTEGER

const CAUSES = {
  ids: `no id is left for a new user: an import used the largest one, ${MAX_ID}`,
  times:
    'no later time is left for a change: an import used the last one, at the end of the year 9999',
}

/** The error for a write that needs another id or a later time when none is left. Only an import can cause this. */
export function usedUp(what: keyof typeof CAUSES): ServiceError {
  return new ServiceError('storage_damaged', { cause: new Error(CAUSES[what]) })
}

/** Throws `storage_damaged` for an id from the storage that is too large. */
export function requireExactId(id: number | bigint): void {
  if (id > MAX_ID) throw usedUp('ids')
}

/**
 * The time of a change: the current time, or one millisecond after `previous` if the clock stands still or went back.
 * `now` is in milliseconds since the epoch. Throws `storage_damaged` for a time after the year 9999.
 */
export function laterThan(previous: string, now: number): string {
  const ms = Math.max(now, Date.parse(previous) + 1)
  if (ms > MAX_SHOWN_MS) throw usedUp('times')
  return new Date(ms).toISOString()
}
