import type { BanKey } from './ban-store.ts'
import { counterText } from './counter-store.ts'
import type { RuleParts } from './guard-rule.ts'

/** Where strikes are counted. */
export type StrikeOptions = Pick<RuleParts, 'store' | 'notices'>

/** All services on one database obey a ban after two seconds, and a busy one a little later. */
const KNOWN_AFTER_MS = 10_000

/**
 * Resets the count of a client whose ban was made or lifted. `bannedForMs` is what is left of its ban: the reset then waits until
 * other services know the ban, which they see by the count until then, but never beyond half of it. A failure is logged.
 */
export async function forgetStrikes(
  { rule, clientKey: key }: BanKey,
  { store, notices }: StrikeOptions,
  bannedForMs = 0,
): Promise<void> {
  try {
    const text = counterText({ type: 'ban', rule, key })
    await store?.resetKey(text, Math.min(KNOWN_AFTER_MS, bannedForMs / 2))
  } catch (error) {
    notices.storeFailed(error)
  }
}
