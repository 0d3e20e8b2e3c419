/** Whom a rule bans. */
export interface BanKey {
  readonly rule: string
  /** The key under which the rule counts the client. */
  readonly clientKey: string
}

/** A client that a ban rule denies until the ban ends. */
export interface Ban extends BanKey {
  /** By the clock of its store: see `BanStore`. */
  readonly endsAt: number
  /** The length of the ban when it was made, in milliseconds; negative for one that was lifted. */
  readonly lastsMs: number
}

/** What is left of a ban at `now` by the clock of its store, in milliseconds. Never more than its length. */
export function remainingOf({ endsAt, lastsMs }: Ban, now: number): number {
  return Math.min(endsAt - now, lastsMs)
}

/** The bans that match all fields given here; without any field, all bans. */
export interface BanSelection {
  readonly rule?: string | undefined
  /** Any of these. */
  readonly clientKeys?: readonly string[] | undefined
}

/** Which bans to list. */
export interface BanQuery extends BanSelection {
  /** Also those whose key contains this text, in upper or lower case. */
  readonly keyPart?: string | undefined
  /** Only bans after this place in the order. No ban needs to be there. */
  readonly after?: BanKey | undefined
  /** The most bans to return, 1 or more. */
  readonly limit: number
}

export interface BanPage {
  readonly bans: readonly Ban[]
  readonly hasMore: boolean
}

/**
 * Keeps bans across restarts and shares them between processes. Each call may cost a round trip, ends within seconds, and
 * throws `storage_unavailable` when the storage cannot be used now.
 *
 * Its clock is the same for all processes of the database. It shows roughly the wall time, but ignores changes of
 * the wall clock while the machine of the database runs.
 */
export interface BanStore {
  /** The time by the clock of this store, in milliseconds since the epoch. */
  now(): Promise<number>
  /**
   * The bans that have not ended, in parts, the first to end first. The event loop runs between two parts. A ban that changes
   * meanwhile may be missing; `recent` then has it.
   */
  load(): AsyncIterable<readonly Ban[]>
  /** The bans that have not ended, ordered by rule and then by client key, both as UTF-8. For operators: it may read all bans. */
  list(query: BanQuery): Promise<BanPage>
  /**
   * Saves a ban; it replaces an earlier one of the same rule and client. With `replaces: false` it is not saved while that is in
   * force: several processes may see at once that a client has earned a ban. Returns whether it was saved. Throws as other
   * writes do.
   */
  save(ban: Ban, how?: { readonly replaces: boolean }): Promise<boolean>
  /** Lifts bans. Returns those that had not ended, the first to end first. */
  lift(selection: BanSelection): Promise<readonly Ban[]>
  /**
   * The bans that any process has made, changed or lifted within the last ten seconds; `undefined` if there are too many, and all
   * should be read. Cheap: it is called twice a second.
   */
  recent(): Promise<readonly Ban[] | undefined>
}

/** The latest time that a JavaScript date can hold: ECMA-262 21.4.1.1. */
export const MAX_DATE_MS = 8.64e15

/** One moment by the clock of a store and by the wall clock, in milliseconds since the epoch. */
export interface Moment {
  readonly now: number
  readonly wallNow: number
}

/** A ban as operators get it from `--json` and the management port. */
export function jsonOf(ban: Ban, moment: Moment) {
  return { rule: ban.rule, client: ban.clientKey, ends_at: endOf(ban, moment) }
}

/**
 * The end of a ban by the wall clock, as text. Clocks that differ by less than half a second count as one, so that a ban keeps its
 * end. Limited to what a date can hold: another program may have written any number into the database.
 */
export function endOf({ endsAt, lastsMs }: Ban, { now, wallNow }: Moment): string {
  const ahead = Math.round((wallNow - now) / 1000) * 1000
  const end = Math.min(Math.min(endsAt, now + lastsMs) + ahead, MAX_DATE_MS)
  return new Date(Math.max(end, -MAX_DATE_MS)).toISOString()
}
