import type { RuleType } from './rules/rules-schema.ts'

/** A rule that counts. */
export interface CountingRule {
  /** As in its notices. */
  readonly type: RuleType
  readonly rule: string
}

/** What is counted: the requests of one client, by one rule. */
export interface CounterKey extends CountingRule {
  /** Identifies the client: its address, or what else the rule counts by. */
  readonly key: string
}

/** The count of a key in its window. */
export interface Count {
  /** Includes what was added. */
  readonly count: number
  /** Milliseconds until the window ends. */
  readonly resetsInMs: number
}

/** How long a request has waited for its counts. A store that may be slow reads it, and adds to it. */
export interface Waited {
  waitedMs: number
}

/**
 * Counts by key, in windows that begin with the first count of a key. A call may return a promise. When the store fails, it
 * throws or rejects, and the caller lets the request pass.
 */
export interface CounterStore {
  /**
   * Adds `amount`, by default one, to the count of a key; begins a window of `windowMs` if none is open. `waited` is of the
   * request, whose wait for all its counts a store may limit.
   */
  increment(
    key: CounterKey,
    windowMs: number,
    waited?: Waited,
    amount?: number,
  ): Count | Promise<Count>
  /**
   * Forgets a key, so that its next count begins a window: at once or, if it is counted, in `inMs`, which replaces the end of
   * its window.
   */
  reset(key: CounterKey, inMs?: number): void | Promise<void>
  /**
   * The windows of all other rules only run out, until one comes back. For a store whose windows do not end by themselves: it
   * forgets those that have ended, and whole rules if they have too many.
   */
  letRunOut?(rulesInForce: readonly CountingRule[]): void
}
