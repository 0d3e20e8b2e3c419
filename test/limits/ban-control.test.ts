import { writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { BanControl } from '../../src/limits/ban-control.ts'
import type { BanOrder } from '../../src/limits/ban-orders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const MINUTE = 60_000
const HOUR = 60 * MINUTE

const LOGIN = { name: 'login', path: '/login', maxretry: 3, findtime: '1 hour', bantime: '1 hour' }
const LIMITS = {
  bans: [
    LOGIN,
    { ...LOGIN, name: 'by both', by: ['ip', 'header:X-Key'] },
    { ...LOGIN, name: 'trial', dryRun: true },
  ],
}

async function openWith(limits: object | undefined = LIMITS, env = {}) {
  const clock = createFakeClock()
  const app = await openTestApp({
    ...{ limits, now: clock.now },
    env: { TRUST_PROXY: '1', ...(limits === undefined && { LIMITS_FILE: '' }), ...env },
  })
  return { ...app, clock }
}

async function statuses(app: TestApp, count: number, path = '/login', client = ANN) {
  const found = []
  for (let index = 0; index < count; index++) {
    found.push((await app.http.get(path).set({ 'X-Forwarded-For': client })).status)
  }
  return found
}

/** The messages of a refused order, by field. */
async function refusalOf(bans: BanControl, order: BanOrder) {
  const error = await bans.add(order).then(
    () => undefined,
    thrown => thrown,
  )
  expect(error).toMatchObject({ code: 'validation_failed' })
  const { errors } = error.details as { errors: { field: string; messages: string[] }[] }
  return Object.fromEntries(errors.map(({ field, messages }) => [field, messages]))
}

describe('add', () => {
  test('bans from the next request on, until the ban ends', async () => {
    const app = await openWith()
    expect(await statuses(app, 1, '/users')).toEqual([200])
    const endsAt = app.clock.now() + 10 * MINUTE
    const ban = { rule: 'login', clientKey: ANN, endsAt, lastsMs: 10 * MINUTE }
    expect(await app.bans().add({ rule: 'login', client: ANN, for: '10 minutes' })).toEqual(ban)
    expect(await statuses(app, 1, '/users')).toEqual([403])
    expect(await statuses(app, 1, '/users', BOB)).toEqual([200])
    expect(await app.bans().list({ limit: 9 })).toEqual({ bans: [ban], hasMore: false })
    expect(app.limitsReport().bans).toBe(1)
    app.clock.advance(10 * MINUTE)
    expect(await statuses(app, 1, '/users')).toEqual([200])
    expect(await app.bans().list({ limit: 9 })).toEqual({ bans: [], hasMore: false })
  })

  test('bans for the bantime of the rule, or for a number of seconds', async () => {
    const app = await openWith()
    expect(await app.bans().add({ rule: 'login', client: ANN })).toMatchObject({ lastsMs: HOUR })
    const order = { rule: 'by both', client: '["198.51.100.2","k"]', for: 1.0005 }
    const added = await app.bans().add(order)
    expect(added).toMatchObject({ clientKey: '["198.51.100.2","k"]', lastsMs: 1001 })
    expect((await app.bans().list({ rule: 'by both', limit: 9 })).bans).toEqual([added])
  })

  test('replaces an earlier ban, and forgets strikes', async () => {
    const app = await openWith()
    await app.bans().add({ rule: 'login', client: ANN })
    await app.bans().add({ rule: 'login', client: ANN, for: '1 minute' })
    await statuses(app, 2, '/login', BOB)
    await app.bans().add({ rule: 'login', client: BOB, for: '1 minute' })
    app.clock.advance(MINUTE)
    expect(await statuses(app, 1, '/users')).toEqual([200])
    expect(await statuses(app, 4, '/login', BOB)).toEqual([404, 404, 404, 403])
  })

  test('logs a line that says who has banned', async () => {
    const app = await openWith()
    await app.bans().add({ rule: 'login', client: ANN })
    const lines = app.logLines.filter(({ msg }) => msg === 'client banned by an operator')
    expect(lines).toMatchObject([{ type: 'ban', rule: 'login', client: ANN }])
    expect(app.logLines.some(({ msg }) => String(msg).includes('another process'))).toBe(false)
  })

  const TIME = 'must be a time such as "1 hour", more than 0 and at most a year'
  const RULES = 'must be a ban rule of the limits: "login", "by both", "trial"'
  test.each<{ order: BanOrder; errors: object }>([
    { order: {}, errors: { rule: ["can't be blank"], client: ["can't be blank"] } },
    {
      order: { rule: 7, client: [ANN], for: true },
      errors: { rule: ['must be a string'], client: ['must be a string'], for: [TIME] },
    },
    { order: { rule: 'other', client: ANN }, errors: { rule: [RULES] } },
    {
      order: { rule: 'trial', client: ANN, for: '1 fortnight' },
      errors: { rule: ['is in dry run and bans no client'], for: [TIME] },
    },
    {
      order: { rule: 'login', client: 'ann' },
      errors: { client: ['must be what the rule counts by: ip'] },
    },
    {
      order: { rule: 'by both', client: ANN },
      errors: {
        client: [
          'must be what the rule counts by: a JSON list, as a text, with a text for each of ip and header:X-Key',
        ],
      },
    },
    { order: { rule: 'login', client: ANN, for: 0 }, errors: { for: [TIME] } },
    { order: { rule: 'login', client: ANN, for: ['1 hour'] }, errors: { for: [TIME] } },
    { order: { rule: 'login', client: ANN, for: '366 days' }, errors: { for: [TIME] } },
  ])('refuses $order, and names every mistake', async ({ order, errors }) => {
    const app = await openWith()
    expect(await refusalOf(app.bans(), order)).toEqual(errors)
    expect((await app.bans().list({ limit: 9 })).bans).toEqual([])
  })

  test('knows the rules of the last reload', async () => {
    const app = await openWith({})
    const order = { rule: 'login', client: ANN }
    expect(await refusalOf(app.bans(), order)).toEqual({
      rule: ['must be a ban rule of the limits: none'],
    })
    writeFileSync(app.limitsPath, JSON.stringify(LIMITS))
    await app.reloadLimits()
    await app.bans().add(order)
    expect(await statuses(app, 1)).toEqual([403])
  })

  test('refuses every rule with CACHE_STORE=none', async () => {
    const app = await openWith(LIMITS, { CACHE_STORE: 'none' })
    expect(await refusalOf(app.bans(), { rule: 'login', client: ANN })).toEqual({
      rule: ['has no effect, because CACHE_STORE is "none"'],
    })
  })
})

describe('lift', () => {
  test('lets the client in from its next request on, and forgets its strikes', async () => {
    const app = await openWith()
    expect(await statuses(app, 4)).toEqual([404, 404, 404, 403])
    expect(await app.bans().lift({ clientKeys: [ANN] })).toBe(1)
    expect(await statuses(app, 4)).toEqual([404, 404, 404, 403])
    expect(await app.bans().lift({ rule: 'login' })).toBe(1)
    expect(await app.bans().lift({})).toBe(0)
    expect(app.limitsReport().bans).toBe(0)
    const lines = app.logLines.filter(({ msg }) => msg === 'ban lifted by an operator')
    expect(lines).toHaveLength(2)
  })

  test('lifts only what is selected', async () => {
    const app = await openWith({ bans: [LOGIN, { ...LOGIN, name: 'other', path: '/other' }] })
    for (const client of [ANN, BOB]) {
      for (const rule of ['login', 'other']) await app.bans().add({ rule, client })
    }
    expect(await app.bans().lift({ rule: 'login', clientKeys: [ANN] })).toBe(1)
    expect(app.limitsReport().bans).toBe(3)
    expect(await app.bans().lift({ clientKeys: [ANN, BOB] })).toBe(3)
    expect(await statuses(app, 1, '/users', BOB)).toEqual([200])
  })

  test('many adds and lifts at once leave what the store has', async () => {
    const app = await openWith()
    const clients = Array.from({ length: 20 }, (_, index) => `192.0.2.${index}`)
    await Promise.all(
      clients.flatMap((client, index) => [
        app.bans().add({ rule: 'login', client }),
        ...(index % 2 === 0 ? [app.bans().lift({ clientKeys: [client] })] : []),
      ]),
    )
    const { bans } = await app.bans().list({ limit: 100 })
    expect(app.limitsReport().bans).toBe(bans.length)
    for (const client of clients) {
      const isBanned = bans.some(({ clientKey }) => clientKey === client)
      expect(await statuses(app, 1, '/users', client)).toEqual([isBanned ? 403 : 200])
    }
  })
})

test('without LIMITS_FILE bans are listed and lifted, but not added', async () => {
  const before = await openWith()
  const ban = await before.bans().add({ rule: 'login', client: ANN })
  await before.stop()
  const app = await openTestApp({
    env: { DATABASE_URL: before.databaseUrl },
    now: before.clock.now,
  })
  expect(await app.bans().list({ limit: 9 })).toEqual({ bans: [ban], hasMore: false })
  expect(await refusalOf(app.bans(), { rule: 'login', client: ANN })).toEqual({
    rule: ['is unknown: LIMITS_FILE is not set, and without its rules no client is banned'],
  })
  expect(await app.bans().lift({})).toBe(1)
})
