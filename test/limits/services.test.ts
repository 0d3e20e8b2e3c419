import { describe, expect, test } from 'vitest'
import type { BanRule } from '../../src/limits/rules/limits-file.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { canUseRedis } from '../support/redis-settings.ts'
import { useTestRedis } from '../support/test-redis.ts'

const LOGIN: BanRule = {
  name: 'login',
  path: '/login',
  maxretry: 3,
  findtime: '1 day',
  bantime: '1 day',
}

function statusesOf(app: TestApp, count: number, path: string): Promise<number[]> {
  return Promise.all(Array.from({ length: count }, async () => (await app.http.get(path)).status))
}

describe.skipIf(!canUseRedis)('two services that share a database and count in Redis', () => {
  const redis = useTestRedis()

  async function openTwo(rule: BanRule): Promise<readonly [TestApp, TestApp]> {
    const counting = { CACHE_STORE: 'redis', REDIS_URL: redis.url }
    const env = { ...counting, REDIS_PREFIX: redis.newPrefix() }
    const one = await openTestApp({ limits: { bans: [rule] }, env })
    const options = { limits: { bans: [rule] }, env: { ...env, DATABASE_URL: one.databaseUrl } }
    return [one, await openTestApp(options)]
  }

  test('let exactly maxretry strikes pass, also before the other one has read the ban', async () => {
    const [one, other] = await openTwo(LOGIN)
    expect((await statusesOf(one, 5, '/login')).sort()).toEqual([403, 403, 404, 404, 404])
    expect(await statusesOf(other, 5, '/login')).toEqual(Array(5).fill(403))
    expect(await statusesOf(other, 1, '/users')).toEqual([403])
  })

  test('let exactly maxretry strikes pass when they reach both at once', async () => {
    const [one, other] = await openTwo(LOGIN)
    const found = await Promise.all([
      statusesOf(one, 15, '/login'),
      statusesOf(other, 15, '/login'),
    ])
    expect(found.flat().filter(status => status === 404)).toHaveLength(3)
    expect(found.flat().filter(status => status === 403)).toHaveLength(27)
  })

  test('ban on the next request a client whose last strike by its answer reaches the other one', async () => {
    const [one, other] = await openTwo({ ...LOGIN, status: [404] })
    await statusesOf(one, 3, '/login')
    await statusesOf(other, 1, '/login')
    expect(await statusesOf(other, 1, '/users')).toEqual([403])
  })
})
