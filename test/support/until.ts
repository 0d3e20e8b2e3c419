import { vi } from 'vitest'

/** Less than the time limit of a test, so that a failure shows the line that waited. */
const PATIENCE_MS = 120_000

/** Calls `look` until it returns something, and returns that. */
export function until<T>(look: () => T | Promise<T>, intervalMs = 10) {
  return vi.waitUntil(look, { timeout: PATIENCE_MS, interval: intervalMs })
}

/** Calls `attempt` until it no longer throws. */
export function untilPasses<T>(attempt: () => T | Promise<T>, intervalMs = 10) {
  return vi.waitFor(attempt, { timeout: PATIENCE_MS, interval: intervalMs })
}
