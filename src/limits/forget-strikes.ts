import type { Ban } from './ban-store.ts'
import type { GuardOptions } from './guarded-rule.ts'

/** All services on one database obey a ban after two seconds, and a busy one a little later. */
const KNOWN_AFTER_MS = 10_000

/**
 * Resets the count of a client whose ban has just begun, once other services know the ban: until then the count tells them. In
 * any case well before the ban ends. A failure of the store is logged.
 */
export function forgetStrikesSoon(
  ban: Pick<Ban, 'rule' | 'clientKey'>,
  remainingMs: number,
  options: GuardOptions,
): Promise<void> {
  return resetCount(ban, Math.min(KNOWN_AFTER_MS, remainingMs / 2), options)
}

/** Resets the count of a client whose ban an operator has made or lifted. A failure of the store is logged. */
export function forgetStrikes(
  ban: Pick<Ban, 'rule' | 'clientKey'>,
  options: GuardOptions,
): Promise<void> {
  return resetCount(ban, 0, options)
}

async function resetCount(
  { rule, clientKey: key }: Pick<Ban, 'rule' | 'clientKey'>,
  inMs: number,
  { store, notices }: GuardOptions,
): Promise<void> {
  try {
    await store?.reset({ type: 'ban', rule, key }, inMs)
  } catch (error) {
    notices.storeFailed(error)
  }
}
