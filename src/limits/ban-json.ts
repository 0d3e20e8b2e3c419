import { type Ban, MAX_DATE_MS } from './ban-store.ts'

/** A ban as operators get it, from the commands with `--json` and from the management port. */
export interface BanJson {
  readonly rule: string
  readonly client: string
  /** ISO 8601. */
  readonly ends_at: string
}

/** `now` is in milliseconds since the epoch. */
export function jsonOf(ban: Ban, now: number): BanJson {
  return { rule: ban.rule, client: ban.clientKey, ends_at: endOf(ban, now) }
}

/**
 * The end of a ban as text, limited to what a date can hold: another program may have written any number into the database.
 */
export function endOf({ endsAt, lastsMs }: Ban, now: number): string {
  const end = Math.min(endsAt, now + lastsMs, MAX_DATE_MS)
  return new Date(Math.max(end, -MAX_DATE_MS)).toISOString()
}
