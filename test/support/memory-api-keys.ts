import type { ApiKeyStore, ApiKeyUse, StoredApiKey } from '../../src/access/api-key-store.ts'

export interface MemoryApiKeys extends Omit<ApiKeyStore, 'create' | 'revoke'> {
  /** What is stored. Call `changed` after a change. */
  keys: StoredApiKey[]
  /** The uses of each call. */
  readonly recorded: (readonly ApiKeyUse[])[]
  /** Calls of `list` so far. */
  readonly lists: number
  /** Thrown by each call while it is set. */
  failure: Error | undefined
  /** Lets calls of `recordUses` wait for it. */
  gate: Promise<void>
  changed(): void
}

/** A store in memory whose keys another process seems to change. */
export function memoryApiKeys(keys: StoredApiKey[] = []): MemoryApiKeys {
  let revision = 0
  let lists = 0
  const store: MemoryApiKeys = {
    keys,
    recorded: [],
    get lists() {
      return lists
    },
    failure: undefined,
    gate: Promise.resolve(),
    changed: () => {
      revision++
    },
    list: async () => {
      lists++
      if (store.failure !== undefined) throw store.failure
      return [...store.keys]
    },
    recordUses: async uses => {
      await store.gate
      store.recorded.push(uses)
      if (store.failure !== undefined) throw store.failure
    },
    revision: async () => {
      if (store.failure !== undefined) throw store.failure
      return String(revision)
    },
  }
  return store
}
