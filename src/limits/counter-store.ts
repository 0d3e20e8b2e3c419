/** The count of a key in its window. */
export interface Count {
  /** This one included. */
  readonly count: number
  /** Milliseconds until the window ends. */
  readonly resetsInMs: number
}

/**
 * Counts by key in windows that begin with the first count of a key. A call may answer at once or by a promise;
 * when the store fails, it throws or rejects, and whoever counts lets the request pass.
 */
export interface CounterStore {
  /** Counts one more; in a window of `windowMs`, if none of this key is open. */
  increment(key: string, windowMs: number): Count | Promise<Count>
  /** Forgets a key, so that its next count begins a window. */
  reset(key: string): void | Promise<void>
}

/** What a rule counts a client under: the type is that of its notices, as in `ban`. */
export function counterKey(type: string, rule: string, clientKey: string): string {
  return `${type}\n${rule}\n${clientKey}`
}
