import type { Store } from 'express-rate-limit'
import type { BanKey } from './ban-store.ts'
import type { LimitLog } from './limit-log.ts'
import type { CompiledRule } from './rules/rule-values.ts'

/** The count of a key in its window. */
export interface Count {
  /** Includes what was added. */
  readonly totalHits: number
  /** The end of the window, by the clock `steadyNow` of this process. */
  readonly resetTime: Date
}

/**
 * Counts by key, in windows that begin with the first count of a key: a store of express-rate-limit, for all rules. Its keys are
 * made by `counterText`. A call may return a promise. When the store fails, it throws or rejects, and the request passes.
 */
export interface CounterStore extends Store {
  /** Adds `amount`, by default one, to the count of a key; begins a window if none is open. */
  increment(text: string, amount?: number): Count | Promise<Count>
  /**
   * Forgets a key, so that its next count begins a window: at once or, if it is counted, in `inMs`, which replaces the end of
   * its window.
   */
  resetKey(text: string, inMs?: number): void | Promise<void>
  /**
   * The windows of all other rules only run out, until one comes back. For a store whose windows do not end by themselves: it
   * forgets those that have ended, and whole rules if they have too many.
   */
  letRunOut?(rulesInForce: ReadonlySet<string>): void
}

/** Differs for different rules. With the length of its name, so that its end is known whatever follows. */
export function ruleText({ type, name }: Pick<CompiledRule, 'type' | 'name'>): string {
  return `${type} ${name.length} ${name}`
}

/**
 * A key as the store gets it, after its rule as `ruleText` names it, and the length of the window that it may begin:
 * express-rate-limit hands on one text, and a rule may have another window for each request.
 */
export function counterText(rule: string, key: string, windowMs = 0): string {
  return `${windowMs} ${rule} ${key}`
}

/** The parts of a text that `counterText` made. */
export function parseCounterText(text: string) {
  const windowEnd = text.indexOf(' ')
  const typeEnd = text.indexOf(' ', windowEnd + 1)
  const lengthEnd = text.indexOf(' ', typeEnd + 1)
  const ruleEnd = lengthEnd + 1 + Number(text.slice(typeEnd + 1, lengthEnd))
  return {
    windowMs: Number(text.slice(0, windowEnd)),
    /** What is counted: the text without the window. */
    counter: text.slice(windowEnd + 1),
    rule: text.slice(windowEnd + 1, ruleEnd),
    key: text.slice(ruleEnd + 1),
  }
}

/** Where strikes are counted. */
export interface StrikeOptions {
  /** `undefined` if nothing is counted. */
  readonly store: CounterStore | undefined
  readonly log: Pick<LimitLog, 'storeFailed'>
}

/** All services on one database obey a ban after two seconds, and a busy one a little later. */
const KNOWN_AFTER_MS = 10_000

/**
 * Resets the count of a client whose ban was made or lifted. `bannedForMs` is what is left of its ban: the reset then waits until
 * other services know the ban, which they see by the count until then, but never beyond half of it. A failure is logged.
 */
export async function forgetStrikes(
  { rule, clientKey: key }: BanKey,
  { store, log }: StrikeOptions,
  bannedForMs = 0,
): Promise<void> {
  try {
    const text = counterText(ruleText({ type: 'ban', name: rule }), key)
    await store?.resetKey(text, Math.min(KNOWN_AFTER_MS, bannedForMs / 2))
  } catch (error) {
    log.storeFailed(error)
  }
}
