import { createHash, randomBytes } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { RedisLocation } from '../../../src/config/redis-url.ts'
import { loadConfig } from '../../../src/config/settings.ts'
import type { CounterStore } from '../../../src/limits/counter-store.ts'
import { createRedisConnector } from '../../../src/storage/redis/redis-connection.ts'
import { openRedisCounterStore } from '../../../src/storage/redis/redis-counter-store.ts'
import {
  type CounterKey,
  describeCounterStore,
  textOf,
} from '../../contracts/counter-store-contract.ts'
import { canStartRedis, canUseRedis } from '../../support/programs.ts'
import { readProject } from '../../support/project.ts'
import { startRedisCluster } from '../../support/redis-cluster.ts'
import { shareServer } from '../../support/shared-app.ts'
import { connectTo, useTestRedis } from '../../support/start-redis.ts'

const SECRET = Buffer.alloc(32, 7)

const KEY: CounterKey = { type: 'throttle', rule: 'posts', key: 'a' }

/** A store without a fallback. It closes with the test. */
async function openStore(
  url: string,
  prefix: string,
  { secret = SECRET, steadyNow = Date.now } = {},
): Promise<CounterStore> {
  const { redis } = loadConfig({ CACHE_STORE: 'redis', REDIS_URL: url }, '/nowhere/.env')
  const location = redis as RedisLocation
  const abort = new AbortController()
  onTestFinished(() => abort.abort())
  return openRedisCounterStore({
    ...{ prefix, secret, steadyNow, signal: abort.signal, onEnd: () => {} },
    connect: createRedisConnector(location),
    // Long enough for any answer, on any machine.
    patienceMs: 3_600_000,
  })
}

async function count(store: CounterStore): Promise<number> {
  return (await store.increment(textOf(KEY, 3_600_000))).totalHits
}

/** Moves the end of windows, by their keys, on one server. */
async function advance(
  ms: number,
  keys: readonly string[],
  command: (...args: string[]) => Promise<unknown>,
): Promise<void> {
  for (const key of keys) {
    const left = Number(await command('PTTL', key)) - ms
    await command('PEXPIRE', key, String(left))
  }
}

describe.skipIf(!canUseRedis)('counters on a Redis server', () => {
  const redis = useTestRedis()
  let prefix = ''

  /** A store with keys of its own. */
  function open(): Promise<CounterStore> {
    prefix = redis.newPrefix()
    return openStore(redis.url, prefix)
  }

  /** Without the keys of the trial, which end in a second. */
  const keys = async () =>
    (await redis.keysOf(prefix)).filter(key => !key.startsWith(`${prefix}trial`))

  describeCounterStore({
    name: 'Redis',
    open,
    ownClock: { advance: async ms => advance(ms, await keys(), redis.command) },
  })

  test('every key begins with the prefix, has an end, and shows nothing of its client', async () => {
    const store = await open()
    const clients = ['198.51.100.7', 'ann@example.com', 'x'.repeat(20_000)]
    for (const key of clients)
      await store.increment(textOf({ type: 'ban', rule: 'log in', key }, 3_600_000))
    expect(await keys()).toHaveLength(clients.length)
    const texts = clients.flatMap(client => [client, `ban 6 log in ${client}`])
    const bare = texts.map(text => createHash('sha256').update(text).digest('hex')).join(' ')
    for (const key of await keys()) {
      expect(Number(await redis.command('PTTL', key))).toBeGreaterThan(0)
      expect(key.slice(prefix.length)).toMatch(/^[0-9a-f]{24}$/)
      expect(bare).not.toContain(key.slice(prefix.length))
    }
  })

  test('processes of one database count together, and those of two databases do not', async () => {
    const one = await open()
    const other = await openStore(redis.url, prefix)
    const foreign = await openStore(redis.url, prefix, { secret: randomBytes(32) })
    expect([await count(one), await count(other), await count(foreign)]).toEqual([1, 2, 1])
    await other.resetKey(textOf(KEY))
    expect(await count(one)).toBe(1)
  })

  test('calls at once are answered in their order, however many', async () => {
    const store = await open()
    const calls = Array.from({ length: 2500 }, (_, index) => index + 1)
    const answers = calls.map(() => count(store))
    const reset = store.resetKey(textOf(KEY))
    answers.push(count(store))
    await reset
    expect(await Promise.all(answers)).toEqual([...calls, 1])
  })

  test('windows may have fractions of a millisecond, and last a year', async () => {
    const store = await openStore(redis.url, redis.newPrefix(), { steadyNow: () => 0 })
    const countOf = (key: string, windowMs: number) =>
      store.increment(textOf({ ...KEY, key }, windowMs))
    for (const [windowMs, resetsInMs] of [
      [0.5, 1],
      [1500.25, 1501],
      [31_622_400_000, 31_622_400_000],
    ] as const) {
      expect(await countOf(`${windowMs}`, windowMs)).toEqual({
        totalHits: 1,
        resetTime: new Date(resetsInMs),
      })
    }
  })
})

describe.skipIf(!canStartRedis)('counters in a Redis Cluster', () => {
  const cluster = shareServer(startRedisCluster)
  let prefix = ''
  let prefixes = 0

  describeCounterStore({
    name: 'Redis Cluster',
    open: () => {
      prefix = `${++prefixes}:`
      return openStore(cluster.url, prefix)
    },
    ownClock: {
      advance: async ms => {
        for (const { url } of cluster.nodes) {
          const client = await connectTo(url)
          const command = (...args: string[]) => client.sendCommand(args)
          await advance(ms, await client.keys(`${prefix}*`), command)
          client.destroy()
        }
      },
    },
  })

  test('a URL of any one node leads to the whole Cluster, of which each node gets its share', async () => {
    const keys = Array.from({ length: 3000 }, (_, index) => ({ ...KEY, key: `${index}` }))
    for (const [index, { url }] of cluster.nodes.entries()) {
      const store = await openStore(url, 'share:')
      const counts = await Promise.all(keys.map(key => store.increment(textOf(key, 3_600_000))))
      expect(counts.filter(({ totalHits }) => totalHits !== index + 1)).toEqual([])
    }
    const names = await Promise.all(cluster.nodes.map(node => node.command('KEYS', 'share:*')))
    expect(names.map(text => text.split('\n').length).filter(share => share <= 500)).toEqual([])
  })

  test('a user with only the rights that the guide names counts there', async () => {
    const shown = /`ACL (SETUSER limits on >PASSWORD ~user-records:\* .*)`/
    const [, user = ''] = shown.exec(readProject('docs/limits.md')) ?? []
    for (const node of cluster.nodes) await node.command('ACL', ...user.split(' '))
    const url = cluster.url.replace('redis://', 'redis://limits:PASSWORD@')
    const store = await openStore(url, 'user-records:')
    expect(await count(store)).toBe(1)
    await store.resetKey(textOf(KEY))
  })
})
