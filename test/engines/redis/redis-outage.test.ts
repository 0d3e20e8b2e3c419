import { connect, createServer } from 'node:net'
import { beforeEach, describe, expect, test } from 'vitest'
import { listen } from '../../support/listen.ts'
import { openTestApp, type TestApp } from '../../support/open-test-app.ts'
import { canStartRedis } from '../../support/programs.ts'
import { startRedisCluster } from '../../support/redis-cluster.ts'
import { type RedisServer, startRedis } from '../../support/redis-server.ts'
import { shareServer } from '../../support/shared-app.ts'
import { until, untilPasses } from '../../support/until.ts'

/** Requests without the header are counted too, but never refused. */
const LIMITS = {
  throttle: [
    { name: 'clients', by: 'header:client', limit: 3, period: '1 hour' },
    { name: 'all', by: 'ip', limit: 1000, period: '1 hour' },
  ],
}

const LOST = 'Redis cannot be used, limits are counted locally'
const BACK = 'Redis can be used again, limits are counted there'

function openWith(url: string): Promise<TestApp> {
  const env = { CACHE_STORE: 'redis', REDIS_URL: url, MANAGEMENT_PORT: '0' }
  return openTestApp({ limits: LIMITS, env })
}

async function openInRedis(url: string): Promise<TestApp> {
  const app = await openWith(url)
  await untilCounting(app, 'in Redis')
  return app
}

function linesOf({ logLines }: TestApp, message: string) {
  return logLines.filter(({ msg }) => msg === message)
}

/** Waits until the service says in `/readyz` and in its metrics where it counts. */
function untilCounting({ http, managementUrl }: TestApp, where: 'locally' | 'in Redis') {
  const [body, isUp] =
    where === 'locally' ? [{ status: 'ok', limits: 'local' }, 0] : [{ status: 'ok' }, 1]
  return untilPasses(async () => {
    await http.get('/readyz').expect(200, body)
    const metrics = await (await fetch(`${managementUrl}/metrics`)).text()
    expect(metrics).toContain(`\nlimit_store_up ${isUp}\n`)
  })
}

/** The URL of a server whose answers arrive later. It ends with the test. */
async function slowDown(port: number, delayMs: number): Promise<string> {
  const proxy = createServer({ noDelay: true }, socket => {
    const redis = connect({ port, host: '127.0.0.1', noDelay: true })
    socket.pipe(redis)
    redis.on('data', data => setTimeout(() => socket.write(data), delayMs))
    for (const [end, other] of [
      [socket, redis],
      [redis, socket],
    ] as const) {
      end.on('error', () => {}).on('close', () => other.destroy())
    }
  })
  return `redis://127.0.0.1:${await listen(proxy)}`
}

/** The statuses of requests of a client, one after the other. */
async function statusesOf({ http }: TestApp, client: string, requests: number): Promise<number[]> {
  const statuses = []
  for (let request = 0; request < requests; request++) {
    statuses.push((await http.get('/users').set('Client', client)).status)
  }
  return statuses
}

describe.skipIf(!canStartRedis)('while Redis cannot be used', () => {
  const redis = shareServer(startRedis)

  // Then it is empty, and has the settings of its start.
  beforeEach(async () => {
    await redis.stop()
    await redis.start()
  })

  test('limits hold for the process, with one line in the log, until it is back', async () => {
    const app = await openInRedis(redis.url)
    const lines = () => app.logLines.filter(({ msg }) => msg === LOST || msg === BACK)
    for (const outage of [1, 2]) {
      await redis.stop()
      await untilCounting(app, 'locally')
      const sinceLoss = lines().length
      expect(await statusesOf(app, `client ${outage}`, 5)).toEqual([200, 200, 200, 429, 429])
      expect(lines()).toHaveLength(sinceLoss)
      await redis.start()
      await untilCounting(app, 'in Redis')
      await app.http.get('/users').expect(200)
    }
    const told = lines()
    // On a busy machine, a server that is there may be silent for 40 ms, which is an outage too.
    expect(told.length).toBeGreaterThanOrEqual(4)
    const [lost, back] = [
      { msg: LOST, level: 40, reason: expect.any(String) },
      { msg: BACK, level: 30 },
    ]
    expect(told).toMatchObject(told.map((_, index) => (index % 2 === 0 ? lost : back)))
  })

  test('a frozen server is noticed, also without requests, and none fails because of it', async () => {
    const app = await openInRedis(redis.url)
    for (const requests of [0, 50]) {
      redis.freeze()
      const sent = Array.from({ length: requests }, () => app.http.get('/users').expect(200))
      await Promise.all(sent)
      await untilCounting(app, 'locally')
      redis.thaw()
      await untilCounting(app, 'in Redis')
    }
    expect(linesOf(app, LOST)[0]).toMatchObject({ reason: 'no answer within 40 ms' })
  })

  test('FLUSHALL and SCRIPT FLUSH begin all windows anew, and nothing else', async () => {
    // Again if the server was lost meanwhile: on a busy machine, it may be silent for 40 ms.
    const statuses = await until(async () => {
      await redis.command('FLUSHALL')
      const app = await openWith(redis.url)
      const before = await statusesOf(app, 'one', 4)
      await redis.command('FLUSHALL')
      await redis.command('SCRIPT', 'FLUSH')
      const after = await statusesOf(app, 'one', 4)
      await app.stop(0)
      return linesOf(app, LOST).length === 0 && [before, after]
    })
    expect(statuses).toEqual([
      [200, 200, 200, 429],
      [200, 200, 200, 429],
    ])
  })

  test('a server that is slow but answers is not lost: limits of four rules hold exactly', async () => {
    const url = await slowDown(redis.port, 14)
    const rule = (name: string, limit: number) => {
      return { name, by: `header:${name}`, limit, period: '1 hour' }
    }
    const limits = { throttle: [rule('a', 3), rule('b', 1000), rule('c', 1000), rule('d', 3)] }
    // Again if an answer took 40 ms after all, on a busy machine.
    const statuses = await until(async () => {
      await redis.command('FLUSHALL')
      const app = await openTestApp({ limits, env: { CACHE_STORE: 'redis', REDIS_URL: url } })
      const ask = async (a: string, d: string) =>
        (await app.http.get('/users').set({ a, b: 'b', c: 'c', d })).status
      const found = []
      for (let request = 0; request < 5; request++) {
        found.push(await Promise.all([ask('one', `${request}`), ask(`${request}`, 'one')]))
      }
      await app.stop(0)
      return linesOf(app, LOST).length === 0 && found
    })
    const [passes, refused] = [Array(2).fill(200), Array(2).fill(429)]
    expect(statuses).toEqual([passes, passes, passes, refused, refused])
  })

  test.each([
    ['has no memory left', /OOM/, 'CONFIG SET maxmemory 1', 'CONFIG SET maxmemory 0'],
    [
      'has become a replica',
      /READONLY|UNBLOCKED|MASTERDOWN|Socket closed/,
      ...['REPLICAOF 127.0.0.1 1', 'REPLICAOF NO ONE'],
    ],
    [
      'no longer allows scripts',
      /NOPERM/,
      ...['ACL SETUSER default -@scripting', 'ACL SETUSER default +@scripting'],
    ],
  ])('a server that %s is left until it is mended', async (_what, reason, begin, end) => {
    // Again if the server was lost before, because it was silent for 40 ms on a busy machine.
    const app = await until(async () => {
      await redis.command(...end.split(' '))
      const app = await openInRedis(redis.url)
      await redis.command(...begin.split(' '))
      await app.http.get('/users').expect(200)
      await untilCounting(app, 'locally')
      return !/no answer/.test(String(linesOf(app, LOST)[0]?.reason)) && app
    })
    await app.http.get('/users').expect(200)
    expect(linesOf(app, LOST)[0]?.reason).toMatch(reason)
    await redis.command(...end.split(' '))
    await untilCounting(app, 'in Redis')
    await app.http.get('/users').expect(200)
  })

  test.each([
    { state: 'gone', begin: () => redis.stop(), end: () => redis.start(), reason: 'ECONNREFUSED' },
    { state: 'frozen', begin: () => redis.freeze(), end: () => redis.thaw(), reason: 'no answer' },
  ])('a server that is $state at the start does not stop it', async ({ begin, end, reason }) => {
    await begin()
    const app = await openWith(redis.url)
    await app.http.get('/users').expect(200)
    await untilCounting(app, 'locally')
    expect(linesOf(app, LOST)).toEqual([
      expect.objectContaining({ reason: expect.stringContaining(reason) }),
    ])
    await end()
    await untilCounting(app, 'in Redis')
  })
})

describe.skipIf(!canStartRedis)('while a node of a Redis Cluster cannot be used', () => {
  const cluster = shareServer(() => startRedisCluster({ replicas: 1 }))

  /** Sets whether replicas may take over, and returns a master. */
  async function chooseMaster({ mayBeReplaced }: { mayBeReplaced: boolean }): Promise<RedisServer> {
    const no = mayBeReplaced ? 'no' : 'yes'
    const roles = await Promise.all(
      cluster.nodes.map(async ({ command }) => {
        await command('CONFIG', 'SET', 'cluster-replica-no-failover', no)
        return command('ROLE')
      }),
    )
    return cluster.nodes[roles.findIndex(role => role.startsWith('master'))] as RedisServer
  }

  test('a frozen master that no replica replaces is waited for', async () => {
    const lost = await chooseMaster({ mayBeReplaced: false })
    const app = await openInRedis(cluster.url)
    lost.freeze()
    await untilCounting(app, 'locally')
    await app.http.get('/users').expect(200)
    lost.thaw()
    await untilCounting(app, 'in Redis')
  })

  test('a replica takes over for a master that is lost', async () => {
    const lost = await chooseMaster({ mayBeReplaced: true })
    const app = await openInRedis(cluster.url)
    await lost.stop()
    await untilCounting(app, 'locally')
    await untilCounting(app, 'in Redis')
    await app.http.get('/users').expect(200)
    await lost.start()
  })

  test('one of the nodes of the list is enough at the start', async () => {
    const [first] = cluster.nodes as [RedisServer]
    const url = `redis://127.0.0.1:1,127.0.0.1:${first.port},cache.invalid`
    // Again if the server was silent for 40 ms on a busy machine.
    await until(async () => linesOf(await openInRedis(url), LOST).length === 0)
  })
})
