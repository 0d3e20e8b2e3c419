import { clearInterval, setInterval } from '../timers.ts'
import { follow } from '../waiting/follow.ts'
import { withinPatience } from '../waiting/patience.ts'
import { type Ban, type BanStore, remainingOf } from './ban-store.ts'
import { createRuleMaps } from './rule-maps.ts'

/** A client that a rule may have banned. */
export interface BanId extends Pick<Ban, 'rule' | 'clientKey'> {
  /** Bans of rules in dry run are apart from those of all others, and stay in memory. */
  readonly isDryRun?: boolean | undefined
}

/** The bans in force, in memory, because every request asks for them. */
export type BanList = Awaited<ReturnType<typeof openBanList>>

export interface BanListOptions {
  readonly store: BanStore
  /** Milliseconds of a clock that never goes back: setting the wall clock neither prolongs nor shortens a ban. */
  readonly monotonicNow: () => number
  /** Called once for a ban that cannot be saved now. It is tried again until it is saved, ends or is replaced. */
  readonly onStoreFailure: (error: unknown) => void
  /** Called for the first of several failures in a row. */
  readonly onReadFailure: (error: unknown) => void
  /** Called when this process obeys a ban, or a lift of it, that another process such as a command has saved. */
  readonly onForeignChange: (ban: Ban) => void
  /** The most bans of one rule in memory; beyond that, its oldest is dropped. */
  readonly maxBans?: number
}

const MAX_BANS = 100_000

/** How long a request may wait until the store has the ban that it has earned: after its answer, no crash lifts the ban. */
const SAVE_PATIENCE_MS = 500

/** How many bans are saved at once when the store takes them again. */
const MAX_SAVES = 100

/** A change must take effect within two seconds, of which reading 100,000 bans takes 0.2. */
const FOLLOW_EVERY_MS = 500

/** How much the clocks of two processes of one store may differ. */
const MAX_SKEW_MS = 1000

interface Entry {
  /** As the store has it, unless its rule is in dry run. */
  readonly ban: Ban & BanId
  /** By the monotonic clock. */
  readonly endsAt: number
  /** Whether saving it may replace an earlier ban, which has ended by the clock here but perhaps not by that of the store. */
  readonly replaces: boolean
  /** The number of the first read of the store that must find it. Infinity while it is not saved. */
  firstRead: number
}

/** Reads the bans in the store, and then follows its changes. Rejects when it cannot be read. */
export async function openBanList(options: BanListOptions) {
  const { store, monotonicNow, maxBans = MAX_BANS } = options
  let known = createRuleMaps<Entry>(maxBans)
  let reads = 0
  const saves = new Map<Entry, Promise<boolean>>()

  const offset = (await store.now()) - monotonicNow()
  /** The time by the clock of the store. */
  const now = () => offset + monotonicNow()

  const get = (id: BanId, from = known) => from.get(mapOf(id), id.clientKey)
  const drop = (id: BanId) => known.delete(mapOf(id), id.clientKey)
  const put = (entry: Entry, into = known) => into.set(mapOf(entry.ban), entry.ban.clientKey, entry)

  function toEntry(ban: Ban & BanId, { firstRead = 0, replaces = false } = {}): Entry {
    return { ban, endsAt: monotonicNow() + remainingOf(ban, now()), replaces, firstRead }
  }

  /** Obeys a ban that is in the store. A read that has already begun may not find it. */
  const obey = (ban: Ban) => put(toEntry(ban, { firstRead: reads + 1 }))

  /** Replaces what is known by what the store has, except for what it may lack: see `firstRead`. */
  async function read(): Promise<void> {
    const number = ++reads
    const found = createRuleMaps<Entry>(maxBans)
    const changed: Ban[] = []
    for await (const part of store.load()) {
      for (const ban of part) {
        const entry = get(ban)
        const isKnown = entry?.ban.endsAt === ban.endsAt
        put(isKnown ? entry : toEntry(ban), found)
        if (!isKnown) changed.push(ban)
      }
    }
    known.forEach(entry => {
      const { ban, firstRead } = entry
      const isGone = get(ban, found) === undefined
      // Not lifted, but deleted by a process for which it has ended.
      const isEnding = isGone && ban.endsAt - now() < MAX_SKEW_MS
      if (firstRead > number || isEnding) put(entry, found)
      else if (isGone) changed.push(ban)
    })
    known = found
    if (number > 1) changed.forEach(options.onForeignChange)
  }

  /** Returns false if the store has a ban of that client already, which is obeyed instead. */
  async function save(entry: Entry): Promise<boolean> {
    const { rule, clientKey } = entry.ban
    const isFirst = await store.save(entry.ban, entry)
    if (!isFirst) {
      const found = await store.list({ rule, clientKeys: [clientKey], limit: 1 })
      const [ban] = found.bans
      // It may have been lifted.
      if (ban !== undefined && get(ban) === entry) obey(ban)
    }
    entry.firstRead = reads + 1
    return isFirst
  }

  function startSaving(entry: Entry): Promise<boolean> {
    const saving = save(entry).finally(() => saves.delete(entry))
    saves.set(entry, saving)
    return saving
  }

  /** Drops bans that have ended, and saves those again that the store has refused. */
  function tidy(): void {
    known.forEach(entry => {
      const { ban, endsAt, firstRead } = entry
      const isUnsaved = firstRead === Infinity && !ban.isDryRun
      if (endsAt <= monotonicNow()) {
        // Not before it has ended by the clock of the store too: the next read would take it for a new ban.
        if (ban.endsAt <= now()) drop(ban)
      } else if (isUnsaved && !saves.has(entry) && saves.size < MAX_SAVES) {
        startSaving(entry).catch(() => {})
      }
    })
  }

  const follower = await follow({
    revision: store.revision,
    read,
    everyMs: FOLLOW_EVERY_MS,
    onFailure: options.onReadFailure,
  })
  const tidying = setInterval(tidy, FOLLOW_EVERY_MS).unref()

  return {
    now,

    isEmpty: () => known.isEmpty(),

    /** How many bans are in force, without those of rules in dry run. */
    count: () => {
      const instant = monotonicNow()
      let count = 0
      known.forEach(({ endsAt, ban }) => {
        if (endsAt > instant && !ban.isDryRun) count++
      })
      return count
    },

    /** Milliseconds until a ban ends; `undefined` if none is in force. */
    remainingMs: (id: BanId): number | undefined => {
      const remaining = (get(id)?.endsAt ?? -Infinity) - monotonicNow()
      return remaining > 0 ? remaining : undefined
    },

    /**
     * Bans a client from now on. Resolves when the store has the ban, or soon if it does not answer; the ban is then saved later.
     * False if the store has a ban of another process, which is obeyed instead.
     */
    add: async (id: BanId & { readonly forMs: number }): Promise<boolean> => {
      const { rule, clientKey, isDryRun, forMs } = id
      // Whole milliseconds, as the store keeps them.
      const ban = { rule, clientKey, isDryRun, endsAt: Math.ceil(now() + forMs), lastsMs: forMs }
      const entry = toEntry(ban, { firstRead: Infinity, replaces: get(id) !== undefined })
      put(entry)
      if (isDryRun) return true
      const saving = startSaving(entry).catch(error => {
        options.onStoreFailure(error)
        return true
      })
      return withinPatience(SAVE_PATIENCE_MS, saving).catch(() => true)
    },

    /** Obeys a ban that was saved in the store without this list. */
    obey,

    /** Forgets bans that were lifted in the store. */
    forget: async (lifted: readonly Ban[]): Promise<void> => {
      // What is being read now may have them still.
      await follower.run()
      for (const ban of lifted) {
        // The client may have been banned again.
        if (get(ban)?.ban.endsAt === ban.endsAt) drop(ban)
      }
    },

    /** Reads the store again if other processes have made or lifted bans. */
    follow: follower.run,

    /** Resolves when the bans that this process has made are saved, or cannot be. */
    saved: (): Promise<unknown> => Promise.allSettled(saves.values()),

    /** Stops following the store. Once this resolves, the store is no longer used. */
    close: async (): Promise<void> => {
      clearInterval(tidying)
      await follower.close()
    },
  }
}

/** Bans of rules in dry run are in maps of their own, whatever the names of rules. */
function mapOf({ rule, isDryRun }: BanId): string {
  return isDryRun ? `dry run ${rule}` : `ban ${rule}`
}
