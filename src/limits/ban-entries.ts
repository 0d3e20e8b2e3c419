import type { Ban } from './ban-store.ts'

/** Tells a ban from an earlier one of the same client. */
export type BanId = Pick<Ban, 'rule' | 'clientKey' | 'endsAt'>

/** A ban in memory. */
export interface BanEntry {
  readonly rule: string
  readonly clientKey: string
  /** By the monotonic clock. */
  readonly endsAt: number
  /** As stored, by the wall clock. */
  readonly storedEnd: number
  /** Whether the store keeps it; the bans of rules in dry run stay in memory. */
  readonly isKept: boolean
  /** Number of the first store read that must contain this ban. Infinity while it is unsaved, and for bans never saved. */
  knownFrom: number
}

/** Bans in memory, one for each rule and client, in the order in which they were added. */
export interface BanEntries {
  isEmpty(): boolean
  find(ban: Pick<BanId, 'rule' | 'clientKey'>): BanEntry | undefined
  /** Adds a new ban. First drops those at the front that have ended, and then the oldest while there are too many. */
  append(entry: BanEntry): void
  /** Adds a ban that was read from the store, where the first to end come first. Drops the first if there are too many. */
  load(entry: BanEntry): void
  remove(entry: BanEntry): void
  all(): Iterable<BanEntry>
}

export interface BanEntriesOptions {
  readonly maxBans: number
  readonly isOver: (entry: BanEntry) => boolean
}

export function createBanEntries({ maxBans, isOver }: BanEntriesOptions): BanEntries {
  const entries = new Map<string, BanEntry>()

  return {
    isEmpty: () => entries.size === 0,

    find: ban => entries.get(keyOf(ban)),

    append: entry => {
      const key = keyOf(entry)
      entries.delete(key)
      for (const [first, other] of entries) {
        if (!isOver(other) && entries.size < maxBans) break
        entries.delete(first)
      }
      entries.set(key, entry)
    },

    load: entry => {
      entries.set(keyOf(entry), entry)
      if (entries.size <= maxBans) return
      const [first = ''] = entries.keys()
      entries.delete(first)
    },

    remove: entry => void entries.delete(keyOf(entry)),

    all: () => entries.values(),
  }
}

function keyOf({ rule, clientKey }: Pick<BanId, 'rule' | 'clientKey'>): string {
  return `${rule}\n${clientKey}`
}
