import { hash } from 'node:crypto'
import { follow, repeat } from '../platform/follow.ts'
import type { ApiKeyStore, Scope, StoredApiKey } from './api-key.ts'
import { API_KEY_CHARS, isApiKey } from './api-key.ts'

/** A key that is valid now. */
export interface ValidKey {
  readonly name: string
  readonly scopes: ReadonlySet<Scope>
}

/** Why a text is no valid key. For the operator only: clients must not learn that a key was valid once. */
export type KeyProblem = 'malformed' | 'unknown' | 'expired'

/** The keys in memory, because every request asks for them. */
export type KeyRing = Awaited<ReturnType<typeof openKeyRing>>

export interface KeyRingOptions {
  readonly store: Omit<ApiKeyStore, 'create' | 'revoke'>
  /** Milliseconds since the epoch. */
  readonly now: () => number
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow: () => number
  /** Called for each key that any process has created or revoked since this one opened the ring. */
  readonly onChange: (change: 'created' | 'revoked', key: ValidKey & { expiresAt: number }) => void
  /** Called for the first of several failures in a row. */
  readonly onReadFailure: (error: unknown) => void
  /** Called for the first of several failures in a row. */
  readonly onRecordFailure: (error: unknown) => void
}

/** A revoked key must be refused within two seconds. */
const FOLLOW_EVERY_MS = 500

/** The shortest time between two recorded uses of a key. */
const RECORD_EVERY_MS = 60_000

interface Entry extends ValidKey {
  readonly hash: Buffer
  readonly expiresAt: number
  readonly usage: Usage
}

interface Usage {
  /** Milliseconds since the epoch; `undefined` if there is nothing to record. */
  usedAt: number | undefined
  /** By the monotonic clock: when the next use may be recorded. */
  nextRecordAt: number
}

/** Reads the keys in the store, and then follows its changes. Rejects when it cannot be read. */
export async function openKeyRing(options: KeyRingOptions) {
  const { store, now, monotonicNow } = options
  let entries: ReadonlyMap<string, Entry> = new Map()
  let isOpen = false
  let isClosing = false

  async function read(): Promise<void> {
    const keys = await store.list()
    const previous = entries
    entries = new Map(
      keys.map(key => {
        const id = key.hash.toString('base64')
        return [id, toEntry(key, previous.get(id)?.usage)]
      }),
    )
    if (!isOpen) return
    for (const [id, key] of previous) if (!entries.has(id)) options.onChange('revoked', key)
    for (const [id, key] of entries) if (!previous.has(id)) options.onChange('created', key)
  }

  /** Records the uses of keys, each key at most once a minute. What fails is recorded a minute later. */
  async function record(): Promise<void> {
    const instant = isClosing ? Infinity : monotonicNow()
    const uses = [...entries.values()].flatMap(({ hash, usage }) => {
      const { usedAt, nextRecordAt } = usage
      if (usedAt === undefined || nextRecordAt > instant) return []
      usage.usedAt = undefined
      usage.nextRecordAt = instant + RECORD_EVERY_MS
      return { hash, usedAt, usage }
    })
    if (uses.length === 0) return
    try {
      await store.recordUses(uses.map(({ hash, usedAt }) => ({ hash, usedAt })))
    } catch (error) {
      for (const { usage, usedAt } of uses) usage.usedAt ??= usedAt
      throw error
    }
  }

  const follower = await follow({
    revision: store.revision,
    read,
    everyMs: FOLLOW_EVERY_MS,
    onFailure: options.onReadFailure,
  })
  isOpen = true
  const recorder = repeat({
    work: record,
    everyMs: FOLLOW_EVERY_MS,
    onFailure: options.onRecordFailure,
  })

  return {
    /** Whether there are no keys, not even expired ones. */
    isEmpty: () => entries.size === 0,

    /** The key that a client presents. Recognising a key counts as its use. */
    recognise: (presented: string): ValidKey | KeyProblem => {
      if (presented.length !== API_KEY_CHARS) return 'malformed'
      // Looked up by hash, so the time that it takes reveals nothing about other keys.
      const entry = entries.get(hash('sha256', presented, 'base64'))
      if (entry === undefined) return isApiKey(presented) ? 'unknown' : 'malformed'
      const usedAt = now()
      if (entry.expiresAt <= usedAt) return 'expired'
      entry.usage.usedAt = usedAt
      return entry
    },

    /** Reads the store again if other processes have created or revoked keys. */
    follow: follower.run,

    /** Stops following the store, and records the last uses. Once this resolves, the store is no longer used. */
    close: async (): Promise<void> => {
      await Promise.all([follower.close(), recorder.close()])
      isClosing = true
      await recorder.run()
    },
  }
}

function toEntry(
  { name, hash, scopes, expiresAt = Infinity }: StoredApiKey,
  usage: Usage = { usedAt: undefined, nextRecordAt: -Infinity },
): Entry {
  return { name, hash, scopes: new Set(scopes), expiresAt, usage }
}
