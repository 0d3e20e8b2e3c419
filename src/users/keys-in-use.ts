/** The idempotency keys of requests that run now. */
export interface KeysInUse {
  /** Marks a key as used. Returns `false` if another request uses it. */
  claim(key: string): boolean | Promise<boolean>
  /**
   * Call it once for each claim that succeeded, and answer the request when the promise resolves: a client may then use the key
   * again at once, in any process. Never rejects.
   */
  release(key: string): void | Promise<void>
}

/** The keys of the requests of one process. */
export function createKeysInUse(): KeysInUse {
  const keys = new Set<string>()
  return {
    claim: key => {
      if (keys.has(key)) return false
      keys.add(key)
      return true
    },
    release: key => void keys.delete(key),
  }
}
