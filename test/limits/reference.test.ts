import { expect, test } from 'vitest'
import { shareLimitedApp } from '../support/limited-app.ts'

const app = shareLimitedApp()

const LIMITS = {
  safelist: [{ name: 'safe', userAgent: 'safe' }],
  blocklist: [{ name: 'bad', userAgent: 'bad' }],
  bans: [{ name: 'login', path: '/login', maxretry: 2, findtime: 60, bantime: 120 }],
  throttle: [{ name: 'users', path: '/users', limit: 3, period: 30 }],
  rateLimits: [{ name: 'list', to: 2, within: 20, only: ['list'] }],
}

/** `increment` of a cache whose entries expire, which both count by. */
function createCache(now: () => number) {
  const entries = new Map<string, { count: number; endsAt: number }>()
  return (key: string, seconds: number): number => {
    const found = entries.get(key)
    const entry =
      found !== undefined && found.endsAt > now()
        ? found
        : { count: 0, endsAt: now() + seconds * 1000 }
    entries.set(key, entry)
    return ++entry.count
  }
}

/** What Rack::Attack before a controller with Rails' `rate_limit` answers: the status, and what the limit on the route leaves. */
function createReference(now: () => number) {
  const increment = createCache(now)
  const bannedUntil = new Map<string, number>()

  function isBanned(client: string, path: string): boolean {
    if ((bannedUntil.get(client) ?? 0) > now()) return true
    if (path === '/login' && increment(`login ${client} ${bannedUntil.get(client)}`, 60) >= 2) {
      bannedUntil.set(client, now() + 120_000)
    }
    return false
  }

  return (client: string, agent: string, path: string): [status: number, left?: number] => {
    const found = path === '/users' ? 200 : 404
    if (agent === 'safe') return [found]
    if (agent === 'bad' || isBanned(client, path)) return [403]
    if (path !== '/users') return [found]
    // A throttle has its own item.
    if (increment(`users ${client}`, 30) > 3) return [429, 0]
    const count = increment(`list ${client}`, 20)
    return count > 2 ? [429, 0] : [200, 2 - count]
  }
}

test('random requests are answered as Rack::Attack and rate_limit of Rails answer them', async () => {
  await app.startOver(LIMITS)
  const reference = createReference(app.clock.now)
  let seed = 7
  const pick = <T>(items: readonly T[]): T => {
    seed = (seed * 48_271) % 2_147_483_647
    return items[seed % items.length] as T
  }
  const statuses = new Set<number>()
  for (let index = 0; index < 400; index++) {
    const client = `198.51.100.${pick([1, 2])}`
    const agent = pick(['usual', 'usual', 'usual', 'usual', 'safe', 'bad'])
    const path = pick(['/users', '/users', '/users', '/login'])
    const expected = reference(client, agent, path)
    const { status, headers } = await app.ask(`GET ${path}`, {
      'X-Forwarded-For': client,
      'User-Agent': agent,
    })
    const left = /; r=(\d+)/.exec(headers.ratelimit ?? '')?.[1]
    const answered = left === undefined ? [status] : [status, Number(left)]
    expect([index, client, agent, path, ...answered]).toEqual([
      ...[index, client, agent, path],
      ...expected,
    ])
    statuses.add(status)
    app.clock.advance(pick([0, 0, 1000, 7000]))
  }
  expect([...statuses].toSorted()).toEqual([200, 403, 404, 429])
})
