import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../../src/config.ts'
import type { CounterKey, CounterStore } from '../../../src/limits/counter-store.ts'
import type { RedisLocation } from '../../../src/redis-location.ts'
import { createCounterKeys } from '../../../src/storage/redis/counter-keys.ts'
import { createRedisCounterStore } from '../../../src/storage/redis/redis-counter-store.ts'
import { createRedisLink } from '../../../src/storage/redis/redis-link.ts'
import { describeCounterStore } from '../../contracts/counter-store-contract.ts'
import { type RedisCluster, startRedisCluster } from '../../support/redis-cluster.ts'
import { canStartRedis, canUseRedis } from '../../support/redis-settings.ts'
import { connectTo, useTestRedis } from '../../support/test-redis.ts'
import { until } from '../../support/until.ts'

const GUIDE = new URL('../../../docs/limits.md', import.meta.url)

const SECRET = Buffer.alloc(32, 7)

const KEY: CounterKey = { type: 'throttle', rule: 'posts', key: 'a' }

/** A store without a fallback. It closes with the test. */
async function openStore({
  url,
  prefix,
  secret = SECRET,
}: {
  url: string
  prefix: string
  secret?: Buffer
}): Promise<CounterStore> {
  const { redis } = loadConfig({ CACHE_STORE: 'redis', REDIS_URL: url }, '/nowhere/.env')
  const location = redis as RedisLocation
  const link = createRedisLink({
    ...{ location, prefix },
    // Long enough for any answer, on any machine.
    patienceMs: 3_600_000,
    onBroken: () => {},
  })
  onTestFinished(link.close)
  await link.open()
  return createRedisCounterStore({ nameOf: createCounterKeys(secret), link })
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
    return openStore({ url: redis.url, prefix })
  }

  /** Without the key of the trial, which ends in a second. */
  const keys = async () => (await redis.keysOf(prefix)).filter(key => key !== `${prefix}trial`)

  describeCounterStore({
    name: 'Redis',
    open,
    ownClock: { advance: async ms => advance(ms, await keys(), redis.command) },
  })

  test('every key begins with the prefix, has an end, and shows nothing of its client', async () => {
    const store = await open()
    const clients = ['198.51.100.7', 'ann@example.com', 'x'.repeat(20_000)]
    for (const key of clients)
      await store.increment({ type: 'ban', rule: 'log in', key }, 3_600_000)
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
    const other = await openStore({ url: redis.url, prefix })
    const foreign = await openStore({ url: redis.url, prefix, secret: randomBytes(32) })
    const count = async (store: CounterStore) => (await store.increment(KEY, 3_600_000)).count
    expect([await count(one), await count(other), await count(foreign)]).toEqual([1, 2, 1])
    await other.reset(KEY)
    expect(await count(one)).toBe(1)
  })

  test('all calls of a turn are one question, in their order', async () => {
    const store = await open()
    const monitor = await connectTo(redis.url)
    const seen: string[] = []
    await monitor.monitor(command => seen.push(String(command)))
    const answers = [
      store.increment(KEY, 3_600_000),
      store.increment({ ...KEY, key: 'b' }, 3_600_000),
      store.increment(KEY, 3_600_000),
      store.reset(KEY),
      store.increment(KEY, 3_600_000),
    ]
    const counts = (await Promise.all(answers)).map(answer => answer?.count)
    expect(counts).toEqual([1, 1, 2, undefined, 1])
    await redis.command('ECHO', `end of ${prefix}`)
    const ours = () => seen.filter(command => command.includes(prefix))
    await until(() => ours().some(command => command.includes('"ECHO"')))
    monitor.destroy()
    expect(ours().filter(command => /"EVALSHA"/i.test(command))).toHaveLength(1)
  })

  test('more calls than one question holds are all counted', async () => {
    const store = await open()
    const calls = Array.from({ length: 2500 }, (_, index) => index + 1)
    const answers = await Promise.all(calls.map(() => store.increment(KEY, 3_600_000)))
    expect(answers.map(({ count }) => count)).toEqual(calls)
  })

  test('windows may have fractions of a millisecond, and last a year', async () => {
    const store = await open()
    const year = 31_622_400_000
    const countOf = (key: string, windowMs: number) => store.increment({ ...KEY, key }, windowMs)
    expect(await countOf('short', 0.5)).toEqual({ count: 1, resetsInMs: 1 })
    expect(await countOf('odd', 1500.25)).toEqual({ count: 1, resetsInMs: 1501 })
    expect(await countOf('year', year)).toEqual({ count: 1, resetsInMs: year })
    expect((await countOf('year', year)).resetsInMs).toBeGreaterThan(year - 600_000)
  })

  test('a key that lost its end gets a new one', async () => {
    const store = await open()
    await store.increment(KEY, 3_600_000)
    for (const key of await keys()) await redis.command('PERSIST', key)
    expect(await store.increment(KEY, 3_600_000)).toEqual({ count: 2, resetsInMs: 3_600_000 })
    for (const key of await keys()) {
      expect(Number(await redis.command('PTTL', key))).toBeGreaterThan(0)
    }
  })
})

describe.skipIf(!canStartRedis)('counters in a Redis Cluster', () => {
  let cluster: RedisCluster
  let prefix = ''
  let prefixes = 0

  beforeAll(async () => {
    cluster = await startRedisCluster()
  })

  afterAll(() => cluster?.remove())

  describeCounterStore({
    name: 'Redis Cluster',
    open: () => {
      prefix = `${++prefixes}:`
      return openStore({ url: cluster.url, prefix })
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

  test('every node gets a fair share of the keys', async () => {
    const store = await openStore({ url: cluster.url, prefix: 'share:' })
    const keys = Array.from({ length: 3000 }, (_, index) => ({ ...KEY, key: `${index}` }))
    await Promise.all(keys.map(key => store.increment(key, 3_600_000)))
    const shares = await Promise.all(
      cluster.nodes.map(async node => (await node.command('KEYS', 'share:*')).split('\n').length),
    )
    expect(shares.filter(share => share <= 500)).toEqual([])
  })

  test('a URL of any one node leads to the whole Cluster', async () => {
    for (const [index, { url }] of cluster.nodes.entries()) {
      const store = await openStore({ url, prefix: 'any:' })
      expect(await store.increment(KEY, 3_600_000)).toMatchObject({ count: index + 1 })
    }
  })

  test('a user with only the rights that the guide names counts there', async () => {
    const shown = /`ACL (SETUSER limits on >PASSWORD ~user-records:\* .*)`/
    const [, user = ''] = shown.exec(readFileSync(GUIDE, 'utf8')) ?? []
    for (const node of cluster.nodes) await node.command('ACL', ...user.split(' '))
    const url = cluster.url.replace('redis://', 'redis://limits:PASSWORD@')
    const store = await openStore({ url, prefix: 'user-records:' })
    expect(await store.increment(KEY, 3_600_000)).toMatchObject({ count: 1 })
    await store.reset(KEY)
  })

  test('counting goes on exactly while a slot moves to another node', async () => {
    const store = await openStore({ url: cluster.url, prefix: 'moved:' })
    const count = async (counting = store) => (await counting.increment(KEY, 3_600_000)).count
    expect(await count()).toBe(1)
    const names = await Promise.all(cluster.nodes.map(node => node.command('KEYS', 'moved:*')))
    const key = names.join('\n').match(/^moved:.*(?<!trial)$/m)?.[0] ?? ''
    const from = await cluster.nodeOf(key)
    const to = cluster.nodes.find(node => node !== from) as typeof from
    const slot = await from.command('CLUSTER', 'KEYSLOT', key)
    const fromId = await from.command('CLUSTER', 'MYID')
    const toId = await to.command('CLUSTER', 'MYID')

    await to.command('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId)
    await from.command('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId)
    expect(await count()).toBe(2)
    const all = (await from.command('CLUSTER', 'GETKEYSINSLOT', slot, '1000')).split('\n')
    await from.command('MIGRATE', '127.0.0.1', `${to.port}`, '', '0', '5000', 'KEYS', ...all)
    expect(await count()).toBe(3)
    for (const node of [to, from, ...cluster.nodes]) {
      await node.command('CLUSTER', 'SETSLOT', slot, 'NODE', toId)
    }
    expect(await count()).toBe(4)
    expect(await count(await openStore({ url: cluster.url, prefix: 'moved:' }))).toBe(5)
  })
})
