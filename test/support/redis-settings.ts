import { spawnSync } from 'node:child_process'

/** The server on which tests count, with a prefix of their own. If undefined, they start one of their own. */
export const TEST_REDIS_URL = process.env.TEST_REDIS_URL || undefined

/** Whether tests can start, stop and freeze Redis servers of their own. */
export const canStartRedis = ['redis-server', 'redis-cli'].every(
  program => spawnSync(program, ['--version']).status === 0,
)

/** Whether tests can count on a Redis server. */
export const canUseRedis = canStartRedis || TEST_REDIS_URL !== undefined

/** Which tests are skipped, and why. Undefined if none is. */
export function skippedOnRedis(): string | undefined {
  const reason = 'are skipped: redis-server and redis-cli are not installed'
  if (!canUseRedis) return `tests on Redis ${reason}, and TEST_REDIS_URL is not set`
  return canStartRedis ? undefined : `tests that stop a Redis server ${reason}`
}
