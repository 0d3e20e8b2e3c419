import type { Ban } from './ban-store.ts'

/** A ban that was made or lifted. */
export interface BanChange {
  readonly happened: 'made' | 'lifted'
  readonly ban: BanId
}

/** Tells the ban from an earlier one of the same client. */
export type BanId = Pick<Ban, 'rule' | 'clientKey' | 'endsAt'>

/** A ban that a worker has made. */
export interface AnnouncedBan extends Ban {
  /** Whether the store will have it; the bans of rules in dry run stay in memory. */
  readonly isKept: boolean
}

/** Gets the bans of the other workers. */
export interface BanReceiver {
  made(ban: AnnouncedBan): void
  /** The ban is in the store from now on. */
  saved(ban: BanId): void
}

/** How a worker shares its bans with the other workers of its service. */
export interface BanExchange {
  /** From now on `receiver` gets the bans of the other workers. Returns those that may not be in the store. */
  join(receiver: BanReceiver): Promise<readonly AnnouncedBan[]>
  /**
   * Tells the other workers of a ban. Resolves when they have it, or soon if one of them does not answer: to false if
   * another worker has banned the client at the same time. Then that ban counts, and `receiver` has got it.
   */
  announce(ban: AnnouncedBan): Promise<boolean>
  /** Tells the other workers that an announced ban is in the store. */
  announceSaved(ban: BanId): void
  /** Returns the changes that no worker has made, and that no other worker has claimed. */
  claim(changes: readonly BanChange[]): Promise<readonly BanChange[]>
}
