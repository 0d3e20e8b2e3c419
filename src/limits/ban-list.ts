import { repeat } from '../platform/follow.ts'
import { withinPatience } from '../platform/patience.ts'
import { clearInterval, setInterval } from '../platform/timers.ts'
import { type Ban, type BanKey, type BanStore, remainingOf } from './ban-store.ts'
import { createRuleMaps } from './rule-maps.ts'

/** A client that a rule may have banned. */
export interface BanId extends BanKey {
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

/** A change must take effect within two seconds. */
const FOLLOW_EVERY_MS = 500

/** All bans are read again after this time: a change may have been committed late, or by hand. */
const READ_ALL_EVERY_MS = 60_000

/** Half of the time for which the store tells recent changes. */
const MAX_GAP_MS = 5000

interface Entry {
  /** As the store has it, unless its rule is in dry run. */
  readonly ban: Ban & BanId
  /** By the clock of the bans; earlier than in the store, where the ban was made by a clock that is far ahead. */
  readonly endsAt: number
  /** Whether saving it may replace an earlier ban, which has ended here but perhaps not yet by the clock of another process. */
  readonly replaces: boolean
  /** False until the store has it; that of a rule in dry run stays here. */
  isSaved: boolean
}

/** Reads the bans in the store, and then follows its changes. Rejects when it cannot be read. */
export async function openBanList(options: BanListOptions) {
  const { store, monotonicNow, maxBans = MAX_BANS } = options
  const known = createRuleMaps<Entry>(maxBans)
  /** What this process has made or saved since the current read began, which may not find it. */
  const fresh = new Set<Entry>()
  const saves = new Map<Entry, Promise<boolean>>()
  let isOpen = false
  /** By the monotonic clock: when the last read began that succeeded, and the last one of all bans. */
  let readAt = -Infinity
  let readAllAt = -Infinity

  const offset = (await store.now()) - monotonicNow()
  /** The time by the clock of the bans: that of the store when this list was opened, and from then on the monotonic one. */
  const now = () => offset + monotonicNow()

  const get = (id: BanId) => known.get(mapOf(id), id.clientKey)
  const drop = (id: BanId) => known.delete(mapOf(id), id.clientKey)

  function put(ban: Ban & BanId, { isSaved = true, replaces = false } = {}): Entry {
    const endsAt = now() + remainingOf(ban, now())
    const entry = { ban, endsAt, replaces, isSaved }
    known.set(mapOf(ban), ban.clientKey, entry)
    return entry
  }

  /** Takes over what the store says of a client, unless this process knows better. Returns what is then known of the client. */
  function take(ban: Ban): Entry | undefined {
    const entry = get(ban)
    const isNewer = entry !== undefined && (!entry.isSaved || fresh.has(entry))
    const isLifted = ban.lastsMs < 0
    const isKnown = isLifted ? entry === undefined : entry?.ban.endsAt === ban.endsAt
    if (isNewer || isKnown) return entry
    drop(ban)
    const taken = isLifted ? undefined : put(ban)
    if (isOpen) options.onForeignChange(ban)
    return taken
  }

  async function readAll(): Promise<void> {
    const found = new Set<Entry | undefined>()
    for await (const part of store.load()) {
      for (const ban of part) found.add(take(ban))
    }
    known.forEach(entry => {
      const { ban, isSaved } = entry
      if (found.has(entry) || fresh.has(entry) || !isSaved || ban.endsAt <= now()) return
      // It was lifted during a failure, or deleted by hand.
      drop(ban)
      options.onForeignChange(ban)
    })
  }

  /** Reads what has changed; all bans after a failure, a pause, and once a minute. */
  async function read(): Promise<void> {
    const begunAt = monotonicNow()
    const isPartEnough = begunAt - readAt <= MAX_GAP_MS && begunAt - readAllAt < READ_ALL_EVERY_MS
    readAt = -Infinity
    fresh.clear()
    const recent = isPartEnough ? await store.recent() : undefined
    if (recent !== undefined) recent.forEach(take)
    else {
      await readAll()
      readAllAt = begunAt
    }
    readAt = begunAt
  }

  /** Obeys a ban that is in the store. */
  const obey = (ban: Ban) => void fresh.add(put(ban))

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
    entry.isSaved = true
    fresh.add(entry)
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
      const { ban, endsAt, isSaved } = entry
      if (endsAt <= now()) {
        // Not before its end in the store: the next read would take it for a new ban.
        if (ban.endsAt <= now()) drop(ban)
      } else if (!isSaved && !ban.isDryRun && !saves.has(entry) && saves.size < MAX_SAVES) {
        startSaving(entry).catch(() => {})
      }
    })
  }

  await read()
  isOpen = true
  const follower = repeat({
    work: read,
    everyMs: FOLLOW_EVERY_MS,
    onFailure: options.onReadFailure,
  })
  const tidying = setInterval(tidy, FOLLOW_EVERY_MS).unref()

  return {
    now,

    isEmpty: () => known.isEmpty(),

    /** How many bans are in force, without those of rules in dry run. */
    count: () => {
      const instant = now()
      let count = 0
      known.forEach(({ endsAt, ban }) => {
        if (endsAt > instant && !ban.isDryRun) count++
      })
      return count
    },

    /** Milliseconds until a ban ends; `undefined` if none is in force. */
    remainingMs: (id: BanId): number | undefined => {
      const remaining = (get(id)?.endsAt ?? -Infinity) - now()
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
      const entry = put(ban, { isSaved: false, replaces: get(id) !== undefined })
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

    /** Reads what other processes have changed. */
    follow: follower.run,

    /** Resolves when the bans that this process has made are saved, or cannot be. */
    saved: (): Promise<unknown> => Promise.allSettled(saves.values()),

    /** Saves what it can. Once this resolves, the store is no longer used. */
    close: async (): Promise<void> => {
      clearInterval(tidying)
      await withinPatience(SAVE_PATIENCE_MS, Promise.allSettled(saves.values())).catch(() => {})
      await follower.close()
    },
  }
}

/** Bans of rules in dry run are in maps of their own, whatever the names of rules. */
function mapOf({ rule, isDryRun }: BanId): string {
  return isDryRun ? `dry run ${rule}` : `ban ${rule}`
}
