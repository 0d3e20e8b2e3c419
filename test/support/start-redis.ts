import type { TestProject } from 'vitest/node'
import { startRedis } from './redis-server.ts'
import { canStartRedis, TEST_REDIS_URL } from './redis-settings.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Of a server for all tests; empty if there is none. */
    redisUrl: string
  }
}

/** Provides the tests of a project with a Redis server: that of `TEST_REDIS_URL`, or one for this run. */
export default async function startSharedRedis(project: TestProject): Promise<() => Promise<void>> {
  const needsServer = TEST_REDIS_URL === undefined && canStartRedis
  const server = needsServer ? await startRedis() : undefined
  project.provide('redisUrl', TEST_REDIS_URL ?? server?.url ?? '')
  return async () => {
    await server?.remove()
  }
}
