import { describe, expect, test } from 'vitest'
import type { BanOrder } from '../../src/limits/ban-orders.ts'
import {
  ANN,
  BOB,
  type LimitedApp,
  MINUTE,
  openLimitedApp,
  shareLimitedApp,
} from '../support/limited-app.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'

// What HTTP shows of the orders of operators is in test/ops/management/bans.test.ts.

const LOGIN = { name: 'login', path: '/login', maxretry: 3, findtime: '1 hour', bantime: '1 hour' }
const LIMITS = {
  bans: [
    LOGIN,
    { ...LOGIN, name: 'by both', by: ['ip', 'header:X-Key'] as const },
    { ...LOGIN, name: 'trial', dryRun: true },
  ],
}
const BAN_OF_ANN = { rule: 'login', client: ANN }

const app = shareLimitedApp()

const listed = async ({ bans }: TestApp = app) => (await bans().list({ limit: 100 })).bans

/** The messages of a refused order, by field. */
async function refusalOf(order: BanOrder, { bans }: TestApp = app) {
  const error = await bans()
    .add(order)
    .catch(thrown => thrown)
  expect(error).toMatchObject({ code: 'validation_failed' })
  const { errors } = error.details as { errors: { field: string; messages: string[] }[] }
  return Object.fromEntries(errors.map(({ field, messages }) => [field, messages]))
}

describe('add', () => {
  test('bans from the next request on, until the ban ends, and logs that an operator did', async () => {
    await app.startOver(LIMITS)
    expect(await app.statusOf('GET /users')).toBe(200)
    const endsAt = app.clock.now() + 10 * MINUTE
    const ban = { rule: 'login', clientKey: ANN, endsAt, lastsMs: 10 * MINUTE }
    expect(await app.bans().add({ ...BAN_OF_ANN, for: '10 minutes' })).toEqual(ban)
    expect(await app.statusOf('GET /users')).toBe(403)
    expect(await app.statusOf('GET /users', BOB)).toBe(200)
    expect(await listed()).toEqual([ban])
    expect(app.limitsReport().bans).toBe(1)
    const lines = app.linesOf('client banned by an operator')
    expect(lines).toMatchObject([{ type: 'ban', ...BAN_OF_ANN }])
    expect(app.logLines.filter(({ msg }) => String(msg).includes('another process'))).toEqual([])
    app.clock.advance(10 * MINUTE)
    expect(await app.statusOf('GET /users')).toBe(200)
    expect(await listed()).toEqual([])
  })

  test('replaces an earlier ban, and forgets strikes', async () => {
    await app.startOver(LIMITS)
    await app.bans().add(BAN_OF_ANN)
    await app.bans().add({ ...BAN_OF_ANN, for: '1 minute' })
    await app.statuses(2, 'GET /login', BOB)
    await app.bans().add({ rule: 'login', client: BOB, for: '1 minute' })
    app.clock.advance(MINUTE)
    expect(await app.statusOf('GET /users')).toBe(200)
    expect(await app.statuses(4, 'GET /login', BOB)).toEqual([404, 404, 404, 403])
  })

  const TIME = 'must be a time such as "1 hour", more than 0 and at most a year'
  const OF_BOTH =
    'must be what the rule counts by: a JSON list, as a text, with a text for each of ip and header:X-Key'

  test.each<[BanOrder, Record<string, string>]>([
    [
      { rule: 'other', client: ANN },
      { rule: 'must be a ban rule of the limits: "login", "by both", "trial"' },
    ],
    [
      { rule: 'trial', client: ANN, for: '1 fortnight' },
      { rule: 'is in dry run and bans no client', for: TIME },
    ],
    [{ rule: 'login', client: 'ann' }, { client: 'must be what the rule counts by: ip' }],
    [{ rule: 'by both', client: ANN }, { client: OF_BOTH }],
  ])('refuses %j, and names every mistake', async (order, messages) => {
    await app.startOver(LIMITS)
    const errors = Object.entries(messages).map(([field, message]) => [field, [message]])
    expect(await refusalOf(order)).toEqual(Object.fromEntries(errors))
    expect(await listed()).toEqual([])
  })

  test('knows the rules of the last reload', async () => {
    await app.startOver({})
    const rule = ['must be a ban rule of the limits: none']
    expect(await refusalOf(BAN_OF_ANN)).toEqual({ rule })
    await app.change(LIMITS)
    await app.bans().add(BAN_OF_ANN)
    expect(await app.statusOf('GET /login')).toBe(403)
  })

  test('refuses every rule with CACHE_STORE=none', async () => {
    const uncounted = await openLimitedApp(LIMITS, { env: { CACHE_STORE: 'none' } })
    const rule = ['has no effect, because CACHE_STORE is "none"']
    expect(await refusalOf(BAN_OF_ANN, uncounted)).toEqual({ rule })
  })
})

describe('lift', () => {
  test('lets the client in from its next request on, and forgets its strikes', async () => {
    await app.startOver(LIMITS)
    for (const selection of [{ clientKeys: [ANN] }, { rule: 'login' }]) {
      expect(await app.statuses(4, 'GET /login')).toEqual([404, 404, 404, 403])
      expect(await app.bans().lift(selection)).toBe(1)
    }
    expect(await app.statusOf('GET /login')).toBe(404)
    expect(await app.bans().lift({})).toBe(0)
    expect(app.limitsReport().bans).toBe(0)
    expect(app.linesOf('ban lifted by an operator')).toHaveLength(2)
  })

  test('of many bans, and adds of others at the same time, leave what the store has', async () => {
    await app.startOver(LIMITS)
    const clients = Array.from({ length: 20 }, (_, index) => `192.0.2.${index}`)
    await Promise.all(
      clients.flatMap((client, index) => [
        app.bans().add({ rule: 'login', client }),
        ...(index % 2 === 0 ? [app.bans().lift({ clientKeys: [client] })] : []),
      ]),
    )
    const banned = (await listed()).map(({ clientKey }) => clientKey)
    expect(app.limitsReport().bans).toBe(banned.length)
    for (const client of clients) {
      const status = banned.includes(client) ? 403 : 200
      expect([client, await app.statusOf('GET /users', client)]).toEqual([client, status])
    }
  })
})

test('without LIMITS_FILE bans are listed and lifted, but not added', async () => {
  const { bans, stop, clock, databaseUrl }: LimitedApp = await openLimitedApp(LIMITS)
  const ban = await bans().add(BAN_OF_ANN)
  await stop()
  const ruleless = await openTestApp({ env: { DATABASE_URL: databaseUrl }, now: clock.now })
  expect(await listed(ruleless)).toEqual([ban])
  expect(await refusalOf(BAN_OF_ANN, ruleless)).toEqual({
    rule: ['is unknown: LIMITS_FILE is not set, and without its rules no client is banned'],
  })
  expect(await ruleless.bans().lift({})).toBe(1)
})
