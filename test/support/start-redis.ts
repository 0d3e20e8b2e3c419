import { randomBytes } from 'node:crypto'
import { createClient } from '@redis/client'
import { afterAll, beforeAll, inject } from 'vitest'
import type { TestProject } from 'vitest/node'
import { canStartRedis, TEST_REDIS_URL } from './programs.ts'
import { startRedis } from './redis-server.ts'

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

/** The Redis server of all tests, which may only read and write keys with prefixes of their own. */
export function useTestRedis() {
  const url = inject('redisUrl')
  const ours = `user-records-test-${randomBytes(6).toString('hex')}-`
  let client: Awaited<ReturnType<typeof connectTo>>
  let prefixes = 0

  beforeAll(async () => {
    client = await connectTo(url)
  })

  afterAll(async () => {
    const keys = await keysOf(ours)
    if (keys.length > 0) await client.del(keys)
    client.destroy()
  })

  /** The names of all keys with a prefix. */
  async function keysOf(prefix: string): Promise<string[]> {
    const keys: string[] = []
    for await (const found of client.scanIterator({ MATCH: `${prefix}*`, COUNT: 1000 })) {
      keys.push(...found)
    }
    return keys
  }

  return {
    url,
    /** A prefix that nobody has used. Its keys are deleted after the tests of the file. */
    newPrefix: () => `${ours}${++prefixes}:`,
    keysOf,
    command: (...args: string[]): Promise<unknown> => client.sendCommand(args),
  }
}

/** A connection that the caller ends. */
export function connectTo(url: string) {
  return createClient({ url, RESP: 2 }).connect()
}
