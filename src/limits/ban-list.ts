import { type Ban, type BanStore, remainingOf } from './ban-store.ts'

/** The bans in force, in memory, because every request asks for them. */
export interface BanList {
  isEmpty(): boolean
  /** Milliseconds until a ban ends; `undefined` if none is in force. */
  remainingMs(rule: string, clientKey: string): number | undefined
  /** Bans a client from now on, and replaces an earlier ban. Only with `isKept` the store saves it. */
  add(ban: { rule: string; clientKey: string; forMs: number; isKept: boolean }): void
  /** Reads the store again if other processes have made or lifted bans. */
  follow(): Promise<void>
  /** Stops following the store. Once this resolves, the store is no longer used. */
  close(): Promise<void>
}

/** A ban that another process, such as a command, has made or lifted. */
export interface BanChange {
  readonly happened: 'made' | 'lifted'
  readonly ban: Pick<Ban, 'rule' | 'clientKey' | 'endsAt'>
}

export interface BanListOptions {
  readonly store: BanStore
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds of a clock that never goes back: setting the wall clock neither prolongs nor shortens a ban. */
  readonly monotonicNow: () => number
  readonly onStoreFailure: (error: unknown) => void
  /** Called for the first of several failures in a row. */
  readonly onReadFailure: (error: unknown) => void
  readonly onForeignChange: (change: BanChange) => void
  /** The most bans in memory; beyond that, the oldest is dropped. */
  readonly maxBans?: number
}

const MAX_BANS = 100_000

/** A change must take effect within two seconds, of which reading `MAX_BANS` bans takes 0.2. */
const FOLLOW_EVERY_MS = 500

interface Entry {
  readonly rule: string
  readonly clientKey: string
  /** By the monotonic clock. */
  readonly endsAt: number
  /** As stored, by the wall clock. */
  readonly storedEnd: number
  /** Number of the first store read that must contain this ban. Infinity while it is unsaved, and for bans never saved. */
  knownFrom: number
}

/** Reads the bans in the store, and then follows its changes. Rejects when it cannot be read. */
export async function openBanList(options: BanListOptions): Promise<BanList> {
  const { store, now, monotonicNow, onStoreFailure, maxBans = MAX_BANS } = options
  let entries = new Map<string, Entry>()
  let readings = 0
  let readRevision: string | undefined
  let following: Promise<void> | undefined
  let isFailing = false
  let isClosed = false

  /** A ban that has ended only by the monotonic clock is kept: the next read of the store would start it again. */
  function isOver({ endsAt, storedEnd }: Entry): boolean {
    return endsAt <= monotonicNow() && storedEnd <= now()
  }

  /** Appends an entry, then drops expired entries from the front, and the oldest while there are more than `maxBans`. */
  function append(map: Map<string, Entry>, entry: Entry): void {
    const key = keyOf(entry.rule, entry.clientKey)
    map.delete(key)
    for (const [first, other] of map) {
      if (!isOver(other) && map.size < maxBans) break
      map.delete(first)
    }
    map.set(key, entry)
  }

  /**
   * Replaces what was read from the store before, and returns the bans that other processes have made or lifted. `revision`
   * was read before the bans: the next read finds a change in between.
   */
  async function read(revision: string): Promise<readonly BanChange[]> {
    const reading = ++readings
    const found = new Map<string, Entry>()
    const changes: BanChange[] = []
    for await (const bans of store.load()) {
      if (isClosed) return []
      for (const ban of bans) {
        const { rule, clientKey, endsAt: storedEnd } = ban
        const key = keyOf(rule, clientKey)
        let entry = entries.get(key)
        if (entry?.storedEnd !== storedEnd) {
          // The wall clock is the only clock that this process shares with the one that made the ban.
          const endsAt = monotonicNow() + remainingOf(ban, now())
          if (endsAt <= monotonicNow()) continue
          entry = { rule, clientKey, endsAt, storedEnd, knownFrom: reading }
          changes.push(changeOf('made', entry))
        }
        found.set(key, entry)
        if (found.size > maxBans) dropFirst(found)
      }
    }
    for (const [key, entry] of entries) {
      if (entry.knownFrom > reading) append(found, entry)
      else if (!found.has(key) && entry.endsAt > monotonicNow())
        changes.push(changeOf('lifted', entry))
    }
    entries = found
    readRevision = revision
    return changes
  }

  async function readIfChanged(): Promise<void> {
    try {
      const revision = await store.revision()
      if (revision === readRevision || isClosed) return
      for (const change of await read(revision)) options.onForeignChange(change)
      isFailing = false
    } catch (error) {
      if (!isFailing) options.onReadFailure(error)
      isFailing = true
    }
  }

  /** Reads of the store never overlap: a slow one delays the next. */
  function follow(): Promise<void> {
    following ??= readIfChanged().finally(() => {
      following = undefined
    })
    return following
  }

  await read(await store.revision())
  const timer = setInterval(follow, FOLLOW_EVERY_MS).unref()

  return {
    isEmpty: () => entries.size === 0,

    remainingMs: (rule, clientKey) => {
      const key = keyOf(rule, clientKey)
      const entry = entries.get(key)
      if (entry === undefined) return undefined
      const remaining = entry.endsAt - monotonicNow()
      if (remaining > 0) return remaining
      if (isOver(entry)) entries.delete(key)
      return undefined
    },

    add: ({ rule, clientKey, forMs, isKept }) => {
      const storedEnd = now() + forMs
      const endsAt = monotonicNow() + forMs
      const entry = { rule, clientKey, endsAt, storedEnd, knownFrom: Infinity }
      append(entries, entry)
      if (!isKept) return
      const saved = store.save({ rule, clientKey, endsAt: storedEnd, lastsMs: forMs })
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

function changeOf(
  happened: BanChange['happened'],
  { rule, clientKey, storedEnd: endsAt }: Entry,
): BanChange {
  return { happened, ban: { rule, clientKey, endsAt } }
}

function dropFirst(entries: Map<string, Entry>): void {
  for (const key of entries.keys()) {
    entries.delete(key)
    return
  }
}

function keyOf(rule: string, clientKey: string): string {
  return `${rule}\n${clientKey}`
}
