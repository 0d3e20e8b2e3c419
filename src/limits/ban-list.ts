import { createPatientWaits } from '../waiting/patient-waits.ts'
import { type BanEntries, type BanEntry, type BanId, createBanEntries } from './ban-entries.ts'
import { type Ban, type BanStore, remainingOf } from './ban-store.ts'
import type { MaybePromise } from './maybe-promise.ts'

/** A ban that was made or lifted. */
export interface BanChange {
  readonly happened: 'made' | 'lifted'
  readonly ban: BanId
}

/** The bans in force, in memory, because every request asks for them. */
export interface BanList {
  isEmpty(): boolean
  /** How many bans are in force, without those of rules in dry run. */
  count(): number
  /** Milliseconds until a ban ends; `undefined` if none is in force. */
  remainingMs(rule: string, clientKey: string): number | undefined
  /**
   * Bans a client from now on, and replaces an earlier ban. Only with `isKept` the store saves it. Resolves when the store
   * has the ban, or soon if it does not answer.
   */
  add(ban: { rule: string; clientKey: string; forMs: number; isKept: boolean }): MaybePromise<void>
  /** Reads the store again if other processes have made or lifted bans. */
  follow(): Promise<void>
  /** Reads the store again in any case. Once it resolves, what the store had at the call is known, unless the store fails. */
  refresh(): Promise<void>
  /** Resolves when the bans that this process has made are saved, or cannot be. */
  saved(): Promise<void>
  /** Stops following the store. Once this resolves, the store is no longer used. */
  close(): Promise<void>
}

export interface BanListOptions {
  readonly store: BanStore
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds of a clock that never goes back: setting the wall clock neither prolongs nor shortens a ban. */
  readonly monotonicNow: () => number
  /** Called once for a ban that cannot be saved now. It is tried again until it is saved, ends or is replaced. */
  readonly onStoreFailure: (error: unknown) => void
  /** Called for the first of several failures in a row. */
  readonly onReadFailure: (error: unknown) => void
  /** Called for a ban that another process, such as a command, has made or lifted. */
  readonly onForeignChange: (change: BanChange) => void
  /** Repeats the first read of the store while it fails for a cause that may pass. If left out, it is done once. */
  readonly untilReachable?: (<T>(work: () => Promise<T>) => Promise<T>) | undefined
  /** The most bans in memory; beyond that, the oldest is dropped. */
  readonly maxBans?: number
}

const MAX_BANS = 100_000

/** How long a request may wait until the store has the ban that it has earned: after its answer, no crash lifts the ban. */
const SAVE_PATIENCE_MS = 500

/** How many bans are saved again at once. */
const MAX_SAVED_AGAIN = 100

/** A change must take effect within two seconds, of which reading `MAX_BANS` bans takes 0.2. */
const FOLLOW_EVERY_MS = 500

/** Reads the bans in the store, and then follows its changes. Rejects when it cannot be read. */
export async function openBanList(options: BanListOptions): Promise<BanList> {
  const { store, now, monotonicNow, onStoreFailure, maxBans = MAX_BANS } = options
  const { untilReachable = work => work() } = options
  let entries = createEntries()
  let readings = 0
  let readRevision: string | undefined
  /** Number of the last store read that succeeded, and of one that must follow even if the revision has not changed. */
  let lastReading = 0
  let neededReading = 0
  const saves = new Set<Promise<void>>()
  const saveWaits = createPatientWaits(SAVE_PATIENCE_MS)
  /** Bans that the store has refused so far. */
  const unsaved = new Map<BanEntry, Ban>()
  let isSavingAgain = false
  let following: Promise<void> | undefined
  let isFailing = false
  let isClosed = false

  /** A ban that has ended only by the monotonic clock is kept: the next read of the store would start it again. */
  function isOver({ endsAt, storedEnd }: BanEntry): boolean {
    return endsAt <= monotonicNow() && storedEnd <= now()
  }

  function createEntries(): BanEntries {
    return createBanEntries({ maxBans, isOver })
  }

  /**
   * Replaces what was read from the store before, and returns the bans that other processes have made or lifted. `revision`
   * was read before the bans: the next read finds a change in between.
   */
  async function read(revision: string): Promise<readonly BanChange[]> {
    const reading = ++readings
    const found = createEntries()
    const changes: BanChange[] = []
    for await (const bans of store.load()) {
      if (isClosed) return []
      for (const ban of bans) {
        const { rule, clientKey, endsAt: storedEnd } = ban
        let entry = entries.find(ban)
        if (entry?.storedEnd !== storedEnd) {
          // The wall clock is the only clock that this process shares with the one that made the ban.
          const endsAt = monotonicNow() + remainingOf(ban, now())
          if (endsAt <= monotonicNow()) continue
          entry = { rule, clientKey, endsAt, storedEnd, isKept: true, knownFrom: reading }
          changes.push(changeOf('made', entry))
        }
        entry.knownFrom = Math.min(entry.knownFrom, reading)
        found.load(entry)
      }
    }
    for (const entry of entries.all()) {
      if (entry.knownFrom > reading) found.append(entry)
      else if (found.find(entry) === undefined && entry.endsAt > monotonicNow())
        changes.push(changeOf('lifted', entry))
    }
    entries = found
    readRevision = revision
    lastReading = reading
    return changes
  }

  async function readIfChanged(): Promise<void> {
    try {
      const revision = await store.revision()
      if ((revision === readRevision && lastReading >= neededReading) || isClosed) return
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

  async function save(entry: BanEntry, ban: Ban): Promise<void> {
    try {
      await store.save(ban)
    } catch (error) {
      if (!unsaved.has(entry)) onStoreFailure(error)
      unsaved.set(entry, ban)
      const [oldest] = unsaved.keys()
      if (unsaved.size > maxBans && oldest !== undefined) unsaved.delete(oldest)
      return
    }
    unsaved.delete(entry)
    entry.knownFrom = Math.min(entry.knownFrom, readings + 1)
  }

  function startSaving(entry: BanEntry, ban: Ban): Promise<void> {
    const saving = save(entry, ban).finally(() => saves.delete(saving))
    saves.add(saving)
    return saving
  }

  /** Whether a ban is in force, and no read has found it in the store, where it could have been lifted since. */
  function isWorthSaving(entry: BanEntry): boolean {
    const isInForce = entries.find(entry) === entry && entry.endsAt > monotonicNow()
    return isInForce && entry.knownFrom === Infinity
  }

  /** Tries some of the bans that the store has refused so far. */
  async function saveAgain(): Promise<void> {
    if (isSavingAgain) return
    isSavingAgain = true
    for (const [entry, ban] of unsaved) {
      if (!isWorthSaving(entry)) unsaved.delete(entry)
      else if (saves.size >= MAX_SAVED_AGAIN) break
      else void startSaving(entry, ban)
    }
    await Promise.all(saves)
    isSavingAgain = false
  }

  await untilReachable(async () => read(await store.revision()))
  const timer = setInterval(() => {
    void follow()
    void saveAgain()
  }, FOLLOW_EVERY_MS).unref()

  return {
    isEmpty: () => entries.isEmpty(),

    count: () => {
      const instant = monotonicNow()
      let count = 0
      for (const { endsAt, isKept } of entries.all()) if (isKept && endsAt > instant) count++
      return count
    },

    remainingMs: (rule, clientKey) => {
      const entry = entries.find({ rule, clientKey })
      if (entry === undefined) return undefined
      const remaining = entry.endsAt - monotonicNow()
      if (remaining > 0) return remaining
      if (isOver(entry)) entries.remove(entry)
      return undefined
    },

    add: ({ rule, clientKey, forMs, isKept }) => {
      // Whole milliseconds, as the store keeps them.
      const storedEnd = Math.ceil(now() + forMs)
      const endsAt = monotonicNow() + forMs
      const entry = { rule, clientKey, endsAt, storedEnd, isKept, knownFrom: Infinity }
      entries.append(entry)
      const ban = { rule, clientKey, endsAt: storedEnd, lastsMs: forMs }
      if (!isKept) return undefined
      const isLate = saveWaits.isLate()
      const waited = saveWaits.wait(startSaving(entry, ban), undefined)
      return isLate ? undefined : waited
    },

    follow,

    refresh: async () => {
      const needed = readings + 1
      neededReading = needed
      await follow()
      // What was being read may have been too early.
      if (lastReading < needed) await follow()
    },

    saved: async () => {
      await Promise.all(saves)
    },

    close: async () => {
      isClosed = true
      clearInterval(timer)
      await following
    },
  }
}

function changeOf(
  happened: BanChange['happened'],
  { rule, clientKey, storedEnd: endsAt }: BanEntry,
): BanChange {
  return { happened, ban: { rule, clientKey, endsAt } }
}
