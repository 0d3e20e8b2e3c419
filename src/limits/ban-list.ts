import { withinPatience } from '../waiting/patience.ts'
import { type Ban, type BanStore, remainingOf } from './ban-store.ts'

/** A client that a rule may have banned. */
export interface BanId {
  readonly rule: string
  readonly clientKey: string
  /** Bans of rules in dry run are apart from those of all others, and stay in memory. */
  readonly isDryRun?: boolean | undefined
}

/** A ban that was made or lifted. */
export interface BanChange {
  readonly happened: 'made' | 'lifted'
  readonly ban: Pick<Ban, 'rule' | 'clientKey' | 'endsAt'>
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

/** How many bans are saved at once when the store takes them again. */
const MAX_SAVES = 100

/** A change must take effect within two seconds, of which reading `MAX_BANS` bans takes 0.2. */
const FOLLOW_EVERY_MS = 500

/** How much the clocks of two processes of one store may differ. */
const MAX_SKEW_MS = 1000

interface Entry {
  /** As the store has it. */
  readonly ban: Ban
  /** By the monotonic clock. */
  readonly endsAt: number
  state: 'dry run' | 'saving' | 'refused' | 'saved'
  /** Whether it replaces one that has ended here, but not yet by the clock of the store. */
  readonly replaces: boolean
}

/** Reads the bans in the store, and then follows its changes. Rejects when it cannot be read. */
export async function openBanList(options: BanListOptions) {
  const { store, monotonicNow, maxBans = MAX_BANS, untilReachable = work => work() } = options
  /** In the order in which they were made or read. */
  const entries = new Map<string, Entry>()
  const saves = new Set<Promise<unknown>>()
  let readRevision: string | undefined
  let following: Promise<void> | undefined
  let isFailing = false
  let hasRefused = false
  let isClosed = false

  const offset = (await untilReachable(store.now)) - monotonicNow()
  /** The time by the clock of the store. */
  const now = () => offset + monotonicNow()
  const monotonicEndOf = (ban: Ban) => monotonicNow() + remainingOf(ban, now())

  function hold(ban: Ban, state: Entry['state']): Entry {
    const key = keyOf({ ...ban, isDryRun: state === 'dry run' })
    const replaces = entries.delete(key)
    if (entries.size >= maxBans) dropOldest(entries)
    const entry = { ban, endsAt: monotonicEndOf(ban), state, replaces }
    entries.set(key, entry)
    return entry
  }

  /** `revision` was read before the bans: the next read finds a change in between. */
  async function read(revision: string): Promise<readonly BanChange[]> {
    // Others are newer than this read, or not in the store.
    const settled = new Map([...entries].filter(([, { state }]) => state === 'saved'))
    const stored = new Map<string, Ban>()
    for await (const part of store.load()) {
      if (isClosed) return []
      for (const ban of part) {
        stored.set(keyOf(ban), ban)
        if (stored.size > maxBans) dropOldest(stored)
      }
    }
    const made: BanChange[] = []
    const lifted: BanChange[] = []
    for (const [key, entry] of settled) {
      if (stored.has(key) || entries.get(key) !== entry) continue
      // Not lifted, but deleted by a process for which it has ended.
      if (entry.ban.endsAt - now() < MAX_SKEW_MS) continue
      entries.delete(key)
      if (entry.endsAt > monotonicNow()) lifted.push({ happened: 'lifted', ban: entry.ban })
    }
    for (const [key, ban] of stored) {
      const known = entries.get(key)
      if (known !== settled.get(key) || known?.ban.endsAt === ban.endsAt) continue
      if (monotonicEndOf(ban) <= monotonicNow()) continue
      hold(ban, 'saved')
      made.push({ happened: 'made', ban })
    }
    readRevision = revision
    return [...made, ...lifted]
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

  /** Reads never overlap: a slow one delays the next. */
  function follow(): Promise<void> {
    following ??= readIfChanged().finally(() => {
      following = undefined
    })
    return following
  }

  /** Returns false if the store has a ban of that client already, which is obeyed instead. */
  async function save(entry: Entry): Promise<boolean> {
    const wasRefused = entry.state === 'refused'
    entry.state = 'saving'
    try {
      const isFirst = await store.save(entry.ban, entry)
      if (!isFirst) await obeyStored(entry)
      entry.state = 'saved'
      return isFirst
    } catch (error) {
      entry.state = 'refused'
      hasRefused = true
      if (!wasRefused) options.onStoreFailure(error)
      return true
    }
  }

  async function obeyStored(entry: Entry): Promise<void> {
    const { rule, clientKey, endsAt } = entry.ban
    const found = await store.list({ rule, clientKeys: [clientKey], limit: 1 })
    const [ban] = found.bans
    // It may have been lifted, or be this one, of which only the answer was lost.
    if (ban === undefined || ban.endsAt === endsAt) return
    if (isClosed || entries.get(keyOf(ban)) !== entry) return
    hold(ban, 'saved')
    options.onForeignChange({ happened: 'made', ban })
  }

  function startSaving(entry: Entry): Promise<boolean> {
    const saving = save(entry).finally(() => saves.delete(saving))
    saves.add(saving)
    return saving
  }

  function saveRefused(): void {
    if (!hasRefused) return
    hasRefused = false
    for (const entry of entries.values()) {
      if (entry.state !== 'refused' || entry.endsAt <= monotonicNow()) continue
      if (saves.size < MAX_SAVES) void startSaving(entry)
      else hasRefused = true
    }
  }

  /** A ban that has ended, but not yet in the store, is kept: the next read would take it for a new one. */
  function dropEnded(): void {
    for (const [key, { endsAt, ban }] of entries) {
      if (endsAt <= monotonicNow() && ban.endsAt <= now()) entries.delete(key)
    }
  }

  await untilReachable(async () => read(await store.revision()))
  const timer = setInterval(() => {
    dropEnded()
    void follow()
    saveRefused()
  }, FOLLOW_EVERY_MS).unref()

  return {
    now,

    isEmpty: () => entries.size === 0,

    /** How many bans are in force, without those of rules in dry run. */
    count: () => {
      const instant = monotonicNow()
      let count = 0
      for (const { endsAt, state } of entries.values()) {
        if (endsAt > instant && state !== 'dry run') count++
      }
      return count
    },

    /** Milliseconds until a ban ends; `undefined` if none is in force. */
    remainingMs: (id: BanId): number | undefined => {
      const entry = entries.get(keyOf(id))
      if (entry === undefined) return undefined
      const remaining = entry.endsAt - monotonicNow()
      return remaining > 0 ? remaining : undefined
    },

    /**
     * Bans a client from now on. Resolves when the store has the ban, or soon if it does not answer; the ban is then saved later.
     * False if the store has a ban of another process, which is obeyed instead.
     */
    add: async (id: BanId & { readonly forMs: number }): Promise<boolean> => {
      const { rule, clientKey, isDryRun, forMs } = id
      // Whole milliseconds, as the store keeps them.
      const ban = { rule, clientKey, endsAt: Math.ceil(now() + forMs), lastsMs: forMs }
      const entry = hold(ban, isDryRun ? 'dry run' : 'saving')
      if (isDryRun) return true
      return withinPatience(SAVE_PATIENCE_MS, startSaving(entry)).catch(() => true)
    },

    /** Obeys a ban that was saved in the store without this list. */
    obey: (ban: Ban): void => void hold(ban, 'saved'),

    /** Forgets bans that were lifted in the store. */
    forget: async (lifted: readonly Ban[]): Promise<void> => {
      // What is being read now may have them still.
      await following
      for (const ban of lifted) {
        const key = keyOf(ban)
        // The client may have been banned again.
        if (entries.get(key)?.ban.endsAt === ban.endsAt) entries.delete(key)
      }
    },

    /** Reads the store again if other processes have made or lifted bans. */
    follow,

    /** Resolves when the bans that this process has made are saved, or cannot be. */
    saved: async (): Promise<void> => {
      await Promise.all(saves)
    },

    /** Stops following the store. Once this resolves, the store is no longer used. */
    close: async (): Promise<void> => {
      isClosed = true
      clearInterval(timer)
      await following
    },
  }
}

function dropOldest(bans: Map<string, unknown>): void {
  bans.delete(bans.keys().next().value as string)
}

/** Differs for different bans, whatever characters their names have. */
function keyOf({ rule, clientKey, isDryRun = false }: BanId): string {
  return `${isDryRun} ${rule.length} ${rule} ${clientKey}`
}
