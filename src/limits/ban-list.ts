import type { BanStore } from './ban-store.ts'

/** The bans in force, at hand for every request. */
export interface BanList {
  isEmpty(): boolean
  /** When the ban ends, in milliseconds from now; `undefined` where there is none. */
  remainingMs(rule: string, clientKey: string): number | undefined
  /** Bans from now on; without `isKept`, for as long as the process runs. */
  add(ban: { rule: string; clientKey: string; forMs: number; isKept: boolean }): void
  /** Takes over what other processes have made or lifted since the last look at the store, if anything. */
  follow(): Promise<void>
  /** Ends following; the store is not used any more once this has ended. */
  close(): Promise<void>
}

export interface BanListOptions {
  readonly store: BanStore
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds of a clock that never goes back, so that no ban is stretched or cut when the other is set. */
  readonly monotonicNow: () => number
  readonly onStoreFailure: (error: unknown) => void
  /** Once until they can be read again. */
  readonly onReadFailure: (error: unknown) => void
  /** Told of each ban that another process made or lifted. */
  readonly onForeignChange: (rule: string, clientKey: string) => void
  /** How many are kept; past that, the oldest goes first. */
  readonly maxBans?: number
}

const MAX_BANS = 100_000

/** So that even as many bans as there may be are read within the two seconds in which a service is to obey. */
const FOLLOW_EVERY_MS = 500

interface Entry {
  readonly rule: string
  readonly clientKey: string
  /** By the monotonic clock. */
  readonly endsAt: number
  /** As the store has it, by the clock of the world. */
  readonly storedEnd: number
  /** The first reading of the store that must find it there; none where it is not there, or not yet. */
  knownFrom: number
}

/** Reads the bans of before, and follows the store from then on. Rejects when they cannot be read. */
export async function openBanList(options: BanListOptions): Promise<BanList> {
  const { store, now, monotonicNow, onStoreFailure, maxBans = MAX_BANS } = options
  let entries = new Map<string, Entry>()
  let readings = 0
  let readRevision: string | undefined
  let following: Promise<void> | undefined
  let isFailing = false
  let isClosed = false

  /** Puts an entry last, and takes away those that have ended, as far as they come first, and the first of too many. */
  function remember(map: Map<string, Entry>, entry: Entry): void {
    const key = keyOf(entry.rule, entry.clientKey)
    map.delete(key)
    const time = monotonicNow()
    for (const [first, { endsAt }] of map) {
      if (endsAt > time && map.size < maxBans) break
      map.delete(first)
    }
    map.set(key, entry)
  }

  /** Puts what the store has in place of what was read from it before; which bans others have made or lifted. */
  async function read(): Promise<readonly Entry[]> {
    const reading = ++readings
    const revision = store.revision()
    const found = new Map<string, Entry>()
    const changed: Entry[] = []
    for await (const bans of store.load()) {
      if (isClosed) return []
      for (const { rule, clientKey, endsAt: storedEnd } of bans) {
        const key = keyOf(rule, clientKey)
        let entry = entries.get(key)
        if (entry?.storedEnd !== storedEnd) {
          // Whoever wrote it and this process have no other clock in common.
          const endsAt = monotonicNow() + storedEnd - now()
          if (endsAt <= monotonicNow()) continue
          entry = { rule, clientKey, endsAt, storedEnd, knownFrom: reading }
          changed.push(entry)
        }
        found.set(key, entry)
        if (found.size > maxBans) forgetFirst(found)
      }
    }
    for (const [key, entry] of entries) {
      if (entry.knownFrom > reading) remember(found, entry)
      else if (!found.has(key) && entry.endsAt > monotonicNow()) changed.push(entry)
    }
    entries = found
    readRevision = revision
    return changed
  }

  async function readIfChanged(): Promise<void> {
    try {
      if (store.revision() === readRevision) return
      for (const { rule, clientKey } of await read()) options.onForeignChange(rule, clientKey)
      isFailing = false
    } catch (error) {
      if (!isFailing) options.onReadFailure(error)
      isFailing = true
    }
  }

  function follow(): Promise<void> {
    following ??= readIfChanged().finally(() => {
      following = undefined
    })
    return following
  }

  await read()
  const timer = setInterval(follow, FOLLOW_EVERY_MS).unref()

  return {
    isEmpty: () => entries.size === 0,

    remainingMs: (rule, clientKey) => {
      const key = keyOf(rule, clientKey)
      const entry = entries.get(key)
      if (entry === undefined) return undefined
      const remaining = entry.endsAt - monotonicNow()
      if (remaining > 0) return remaining
      entries.delete(key)
      return undefined
    },

    add: ({ rule, clientKey, forMs, isKept }) => {
      const storedEnd = now() + forMs
      const endsAt = monotonicNow() + forMs
      const entry = { rule, clientKey, endsAt, storedEnd, knownFrom: Infinity }
      remember(entries, entry)
      if (!isKept) return
      const saved = store.save({ rule, clientKey, endsAt: storedEnd })
      saved.then(() => {
        entry.knownFrom = readings + 1
      }, onStoreFailure)
    },

    follow,

    close: async () => {
      isClosed = true
      clearInterval(timer)
      await following
    },
  }
}

function forgetFirst(entries: Map<string, Entry>): void {
  for (const key of entries.keys()) {
    entries.delete(key)
    return
  }
}

function keyOf(rule: string, clientKey: string): string {
  return `${rule}\n${clientKey}`
}
