import { randomBytes } from 'node:crypto'
import { createClient } from '@redis/client'
import { afterAll, beforeAll, inject } from 'vitest'
import type {} from './start-redis.ts'

/** The Redis server of all tests, which may only read and write keys with prefixes of their own. */
export interface TestRedis {
  readonly url: string
  /** A prefix that nobody has used. Its keys are deleted after the tests of the file. */
  newPrefix(): string
  /** The names of all keys with a prefix. */
  keysOf(prefix: string): Promise<string[]>
  command(...args: string[]): Promise<unknown>
}

export function useTestRedis(): TestRedis {
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

  async function keysOf(prefix: string): Promise<string[]> {
    const keys: string[] = []
    for await (const found of client.scanIterator({ MATCH: `${prefix}*`, COUNT: 1000 })) {
      keys.push(...found)
    }
    return keys
  }

  return {
    url,
    newPrefix: () => `${ours}${++prefixes}:`,
    keysOf,
    command: (...args) => client.sendCommand(args),
  }
}

/** A connection that the caller ends. */
export function connectTo(url: string) {
  return createClient({ url, RESP: 2 }).connect()
}
