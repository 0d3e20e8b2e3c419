/** Whom a ban rule keeps out. */
export interface Ban {
  readonly rule: string
  /** What the rule counts its clients by. */
  readonly clientKey: string
  /** Milliseconds since the epoch. */
  readonly endsAt: number
}

/** Where bans outlive the process. */
export interface BanStore {
  /** Those that have not ended. */
  load(): Promise<readonly Ban[]>
  /** Keeps a ban, in place of an earlier one of the same rule and client. */
  save(ban: Ban): Promise<void>
}

/** The bans in force, at hand for every request. */
export interface BanList {
  isEmpty(): boolean
  /** When the ban ends, in milliseconds from now; `undefined` where there is none. */
  remainingMs(rule: string, clientKey: string): number | undefined
  /** Bans from now on; without `isKept`, for as long as the process runs. */
  add(ban: { rule: string; clientKey: string; forMs: number; isKept: boolean }): void
}

export interface BanListOptions {
  readonly store: BanStore
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds of a clock that never goes back, so that no ban is stretched or cut when the other is set. */
  readonly monotonicNow: () => number
  readonly onStoreFailure: (error: unknown) => void
  /** How many are kept; past that, the oldest goes first. */
  readonly maxBans?: number
}

const MAX_BANS = 100_000

/** Reads the bans of before; later ones are written while requests go on. Rejects when they cannot be read. */
export async function openBanList(options: BanListOptions): Promise<BanList> {
  const { store, now, monotonicNow, onStoreFailure, maxBans = MAX_BANS } = options
  const endByKey = new Map<string, number>()

  function remember(key: string, endsAt: number): void {
    endByKey.delete(key)
    forgetOldest()
    endByKey.set(key, endsAt)
  }

  /** Those that have ended, as far as they come first; and the first of too many. */
  function forgetOldest(): void {
    const now = monotonicNow()
    for (const [key, endsAt] of endByKey) {
      if (endsAt > now && endByKey.size < maxBans) return
      endByKey.delete(key)
    }
  }

  for (const { rule, clientKey, endsAt } of await store.load()) {
    remember(keyOf(rule, clientKey), monotonicNow() + endsAt - now())
  }

  return {
    isEmpty: () => endByKey.size === 0,

    remainingMs: (rule, clientKey) => {
      const key = keyOf(rule, clientKey)
      const endsAt = endByKey.get(key)
      if (endsAt === undefined) return undefined
      const remaining = endsAt - monotonicNow()
      if (remaining > 0) return remaining
      endByKey.delete(key)
      return undefined
    },

    add: ({ rule, clientKey, forMs, isKept }) => {
      remember(keyOf(rule, clientKey), monotonicNow() + forMs)
      if (isKept) store.save({ rule, clientKey, endsAt: now() + forMs }).catch(onStoreFailure)
    },
  }
}

function keyOf(rule: string, clientKey: string): string {
  return `${rule}\n${clientKey}`
}
