import { randomBytes } from 'node:crypto'
import { createClient } from '@redis/client'
import { afterAll, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from './redis-server.ts'
import { TEST_REDIS_URL } from './redis-settings.ts'

/** A Redis server for all tests of a file, which may only read and write keys with prefixes of their own. */
export interface TestRedis {
  readonly url: string
  /** A prefix that nobody has used. Its keys are deleted after the tests. */
  newPrefix(): string
  /** The names of all keys with a prefix. */
  keysOf(prefix: string): Promise<string[]>
  command(...args: string[]): Promise<unknown>
}

/** The server that TEST_REDIS_URL names, otherwise one of their own. */
export function useTestRedis(): TestRedis {
  const ours = `user-records-test-${randomBytes(6).toString('hex')}-`
  let server: RedisServer | undefined
  let url = TEST_REDIS_URL ?? ''
  let client: Awaited<ReturnType<typeof connect>>
  let prefixes = 0

  beforeAll(async () => {
    if (TEST_REDIS_URL === undefined) {
      server = await startRedis()
      url = server.url
    }
    client = await connect(url)
  })

  afterAll(async () => {
    const keys = await keysOf(ours)
    if (keys.length > 0) await client.del(keys)
    client.destroy()
    await server?.remove()
  })

  async function keysOf(prefix: string): Promise<string[]> {
    const keys: string[] = []
    for await (const found of client.scanIterator({ MATCH: `${prefix}*`, COUNT: 1000 })) {
      keys.push(...found)
    }
    return keys
  }

  return {
    get url() {
      return url
    },
    newPrefix: () => `${ours}${++prefixes}:`,
    keysOf,
    command: (...args) => client.sendCommand(args),
  }
}

function connect(url: string) {
  return createClient({ url, RESP: 2 }).connect()
}
