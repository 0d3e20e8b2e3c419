import { describe, expect, test } from 'vitest'
import { canUseRedis } from '../support/programs.ts'
import { managementUrlOf, useServicePair } from '../support/service-pair.ts'
import { linesOf, type SpawnedService } from '../support/spawn-service.ts'
import { useTestRedis } from '../support/start-redis.ts'
import { until } from '../support/until.ts'

const LIMIT = 20

const STRIKES = 3

const STRICT = { maxretry: STRIKES, findtime: '1 day', bantime: '1 day' }

const LIMITS = {
  rateLimits: [{ name: 'reads', to: LIMIT, within: '1 day', only: ['read'] }],
  throttle: [{ name: 'counted', userAgent: 'counted', limit: LIMIT, period: '1 day' }],
  bans: [
    { name: 'login', path: '/login', ...STRICT },
    { name: 'lost', path: '/lost', status: [404], ...STRICT },
  ],
}

describe.skipIf(!canUseRedis)('two services of one database that count in Redis', () => {
  const redis = useTestRedis()
  const prefix = redis.newPrefix()
  const pair = useServicePair({
    limits: LIMITS,
    env: () => ({ CACHE_STORE: 'redis', REDIS_URL: redis.url, REDIS_PREFIX: prefix }),
  })

  let clients = 0

  const both = () => [pair.one, pair.other]

  /** The requests of a client, which counts for itself. */
  function newClient() {
    const address = `198.51.100.${++clients}`
    /** The statuses of some requests that are sent at once, in order of size. */
    const ask = async ({ url }: SpawnedService, count: number, path: string, agent = 'tester') => {
      const headers = { 'X-Forwarded-For': address, 'User-Agent': agent }
      const sent = Array.from({ length: count }, () => fetch(url + path, { headers }))
      return (await Promise.all(sent)).map(({ status }) => status).sort()
    }
    /** The same with as many to each service at once. */
    const askBoth = async (count: number, path: string, agent?: string) =>
      (await Promise.all(both().map(service => ask(service, count, path, agent)))).flat().sort()
    return { address, ask, askBoth }
  }

  /** Tries with new clients until Redis has answered every request in time: a busy machine may be too slow for it. */
  async function counted(
    attempt: (client: ReturnType<typeof newClient>, isLocal: () => boolean) => Promise<void>,
  ): Promise<void> {
    for (;;) {
      const before = localCounts()
      const isLocal = () => localCounts() !== before
      try {
        await attempt(newClient(), isLocal)
        return
      } catch (error) {
        for (const service of both()) await untilLogged(service)
        if (!isLocal()) throw error
        for (const { url } of both()) {
          const isShared = async () => {
            const { limits } = (await (await fetch(`${url}/readyz`)).json()) as { limits?: string }
            return limits === undefined
          }
          await until(isShared, 100)
        }
      }
    }
  }

  /** Waits until the log of a service has arrived so far, which may be after its answers. */
  async function untilLogged({ url, stdout }: SpawnedService): Promise<void> {
    const id = `log-${++clients}`
    await fetch(`${url}/users`, { headers: { 'X-Request-Id': id } })
    await until(() => stdout().includes(id))
  }

  /** The lines of the bans that a client has earned. */
  function bansOf(address: string) {
    const lines = both().flatMap(({ stdout }) => linesOf(stdout()))
    return lines.filter(({ msg, client }) => msg === 'client banned' && client === address)
  }

  function localCounts(): number {
    const logs = pair.one.stdout() + pair.other.stdout()
    return logs.split('limits are counted locally').length
  }

  test.each([
    ['a throttle lets its limit', LIMIT, '/users', 'counted', 200, 429],
    ['a limit of a route lets its limit', LIMIT, '/users/1', undefined, 404, 429],
    ['a ban lets maxretry strikes', STRIKES, '/login', undefined, 404, 403],
  ])('%s pass, exactly, whichever is asked', (_, limit, path, agent, passes, refused) =>
    counted(async ({ askBoth }) => {
      const statuses = [...Array(limit).fill(passes), ...Array(limit).fill(refused)]
      expect(await askBoth(limit, path, agent)).toEqual(statuses.sort())
    }),
  )

  test('no strike passes at one that has not yet read the ban of the other', () =>
    counted(async ({ ask }) => {
      expect(await ask(pair.one, 5, '/login')).toEqual([403, 403, 404, 404, 404])
      expect(await ask(pair.other, 5, '/login')).toEqual(Array(5).fill(403))
    }))

  test('a ban is made once, and strikes at the other do not prolong it', () =>
    counted(async ({ ask, address }) => {
      const endsAt = async () => {
        const answer = await fetch(`${managementUrlOf(pair.one)}/bans?client=${address}`)
        const bans = (await answer.json()) as { ends_at: string }[]
        return bans.map(({ ends_at }) => ends_at)
      }
      await ask(pair.one, STRIKES, '/login')
      const [end] = await endsAt()
      expect(await ask(pair.other, 3, '/login')).toEqual([403, 403, 403])
      await until(async () => (await ask(pair.other, 1, '/users'))[0] === 403)
      expect(await endsAt()).toEqual([end])
      // The log may arrive after the answers.
      await until(() => bansOf(address).length > 0)
      expect(bansOf(address)).toHaveLength(1)
    }))

  test('strikes that reach both at once make one ban, with one line', () =>
    counted(async ({ askBoth, address }) => {
      await askBoth(4 * STRIKES, '/login')
      await until(() => bansOf(address).length > 0)
      expect(bansOf(address)).toHaveLength(1)
    }))

  test('a client is banned soon after its last strike by its answer has reached the other one', () =>
    counted(async ({ ask }, isLocal) => {
      await ask(pair.one, STRIKES, '/lost')
      await ask(pair.other, 1, '/lost')
      await until(async () => isLocal() || (await ask(pair.other, 1, '/users'))[0] === 403)
      expect(isLocal()).toBe(false)
    }))
})
