import { writeFileSync } from 'node:fs'
import { expect } from 'vitest'
import { createFakeClock } from './fake-clock.ts'
import type { TestAppOptions } from './open-test-app.ts'
import { shareTestApp } from './shared-app.ts'

/** Longer than the windows and bans of tests. */
const DAY_MS = 86_400_000

/**
 * One service for all tests of a file, whose rules each test sets. It is behind a proxy, so that X-Forwarded-For names the client.
 * Call it where the tests are declared, as `shareTestApp`.
 */
export function shareAppWithRules({ env, ...options }: TestAppOptions = {}) {
  const clock = createFakeClock()
  const app = shareTestApp({
    ...{ limits: '{}', now: clock.now, ...options },
    env: { TRUST_PROXY: '1', ...env },
  })

  /** Puts new rules in force: an object, or the code of one. */
  async function changeLimits(limits: object | string): Promise<void> {
    const code = typeof limits === 'string' ? limits : JSON.stringify(limits)
    writeFileSync(app.limitsPath, `export default ${code}`)
    expect(await app.reloadLimits()).toMatchObject({ outcome: 'reloaded' })
  }

  /** As `changeLimits`, with all counters, numbers and the log as after a start. */
  async function useLimits(limits: object | string): Promise<void> {
    clock.advance(DAY_MS)
    await changeLimits({})
    await changeLimits(limits)
    app.logLines.length = 0
  }

  return { app, clock, changeLimits, useLimits }
}
