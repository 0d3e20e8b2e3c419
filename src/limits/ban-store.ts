/** Whom a ban rule keeps out. */
export interface Ban {
  readonly rule: string
  /** What the rule counts its clients by. */
  readonly clientKey: string
  /** Milliseconds since the epoch. */
  readonly endsAt: number
}

/** Some of the bans: those that have all that is given here, and all of them without any. */
export interface BanSelection {
  readonly rule?: string
  /** Any of these. */
  readonly clientKeys?: readonly string[]
}

/** Where bans outlive the process, and where other processes make and lift them. */
export interface BanStore {
  /**
   * Those that have not ended, the first to end first, in parts between which other things have their turn. One that
   * is changed meanwhile may be missing; then `revision` says so. Throws `storage_unavailable`.
   */
  load(): AsyncIterable<readonly Ban[]>
  /** Keeps a ban, in place of an earlier one of the same rule and client. Throws as writes do. */
  save(ban: Ban): Promise<void>
  /** Takes bans away, and gives those that had not ended, the first to end first. */
  lift(selection: BanSelection): Promise<readonly Ban[]>
  /** Another value once another process has made or lifted bans. Takes microseconds while nobody else writes. */
  revision(): string
}
