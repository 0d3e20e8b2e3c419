import { describe, expect, test } from 'vitest'
import type { BanRule, LimitsFile } from '../../src/limits/kinds/define-limits.ts'
import { byEngine } from '../support/engine.ts'
import type { FakeClock } from '../support/fake-clock.ts'
import { hurryPolls } from '../support/global-timers.ts'
import {
  ANN,
  BOB,
  type From,
  HOUR,
  type LimitedApp,
  MINUTE,
  openLimitedApp,
  SECOND,
  shareLimitedApp,
} from '../support/limited-app.ts'
import type { TestApp, TestAppOptions } from '../support/open-test-app.ts'
import { executeSql, selectRows } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'

hurryPolls()

const LOGIN: BanRule = {
  name: 'login',
  method: 'POST',
  path: '/login',
  maxretry: 5,
  findtime: '1 minute',
  bantime: '1 hour',
}
const ONCE: BanRule = { ...LOGIN, maxretry: 1 }

const app = shareLimitedApp()

/** The status of `GET /users` and its Retry-After. */
async function denialOf({ ask }: LimitedApp, from?: From) {
  const { status, headers } = await ask('GET /users', from)
  return [status, headers['retry-after']]
}

const PASSED = [200, undefined]

test('maxretry matching requests within findtime pass, and then none of that client', async () => {
  await app.startOver({ bans: [LOGIN] })
  expect(await app.statuses(5, 'POST /login')).toEqual(Array(5).fill(404))
  for (const line of ['GET /login', 'OPTIONS /users', 'DELETE /users/1', 'GET /users/%zz']) {
    const { status, headers } = await app.ask(line)
    expect([line, status, headers['retry-after']]).toEqual([line, 403, '3600'])
    expect(headers['cache-control']).toBe('no-store')
  }
  expect(await app.statuses(4, 'POST /login', BOB)).toEqual(Array(4).fill(404))
  app.clock.advance(MINUTE)
  expect(await app.statuses(4, 'POST /login', BOB)).toEqual(Array(4).fill(404))
  expect(await denialOf(app, BOB)).toEqual(PASSED)
})

test('a ban lasts exactly for bantime, tells the rest in whole seconds, and clears the count', async () => {
  await app.startOver({ bans: [{ ...LOGIN, findtime: '1 day' }] })
  await app.statuses(5, 'POST /login')
  for (const [afterMs, seconds] of [
    [1, '3600'],
    [999, '3599'],
    [HOUR - SECOND - 1, '1'],
  ] as const) {
    app.clock.advance(afterMs)
    // None of them prolongs the ban.
    expect(await app.statuses(5, 'POST /login')).toEqual(Array(5).fill(403))
    expect(await denialOf(app)).toEqual([403, seconds])
  }
  app.clock.advance(1)
  expect(await app.statusOf('GET /users')).toBe(200)
  expect(await app.statuses(6, 'POST /login')).toEqual([404, 404, 404, 404, 404, 403])
})

test('no more than maxretry pass when many come at once', async () => {
  await app.startOver({ bans: [LOGIN] })
  const found = await Promise.all(Array.from({ length: 20 }, () => app.statusOf('POST /login')))
  expect(found.toSorted()).toEqual([...Array(15).fill(403), ...Array(5).fill(404)])
  expect(app.linesOf('client banned')).toHaveLength(1)
})

describe('who is banned', () => {
  test('every client with the key of the rule, from any address', async () => {
    const key = (name: string, client = ANN) => ({ 'X-Api-Key': name, 'X-Forwarded-For': client })
    await app.startOver({ bans: [{ ...LOGIN, maxretry: 2, by: 'header:X-Api-Key' }] })
    for (const from of [key('one'), key('one', BOB)]) await app.ask('POST /login', from)
    for (const from of [key('one'), key('one', '192.0.2.1')])
      expect(await denialOf(app, from)).toEqual([403, '3600'])
    for (const from of [key('two'), ANN]) expect(await denialOf(app, from)).toEqual(PASSED)
  })

  test.each([
    ['allow2ban', 404],
    ['fail2ban', 403],
  ] as const)('nobody for matches of %s without the key', async (mode, status) => {
    await app.startOver({ bans: [{ ...ONCE, mode, by: 'header:X-Api-Key' }] })
    expect(await app.statuses(2, 'POST /login')).toEqual([status, status])
    expect(await denialOf(app)).toEqual(PASSED)
  })
})

describe('several rules', () => {
  test('count separately, each with its own maxretry and bantime', async () => {
    const strict = { ...LOGIN, name: 'strict', maxretry: 2, bantime: 60 }
    await app.startOver({ bans: [LOGIN, strict] })
    expect(await app.statuses(3, 'POST /login')).toEqual([404, 404, 403])
    app.clock.advance(MINUTE)
    expect(await app.statuses(3, 'POST /login')).toEqual([404, 404, 403])
  })

  test('may all count one request, unless a fail2ban rule before has refused it', async () => {
    const second = { ...ONCE, name: 'second', bantime: '2 hours' } as const
    await app.startOver({ bans: [ONCE, second] })
    await app.ask('POST /login')
    app.clock.advance(HOUR)
    expect(await denialOf(app)).toEqual([403, '3600'])
    await app.startOver({ bans: [{ ...LOGIN, mode: 'fail2ban' }, second] })
    expect(await app.statusOf('POST /login')).toBe(403)
    expect(await app.statusOf('GET /users')).toBe(200)
  })
})

test('the log has a line at warn when a ban begins, and its rule and end in the line of each refused request', async () => {
  await app.startOver({ bans: [{ ...LOGIN, maxretry: 2 }] })
  const banEndsAt = new Date(app.clock.now() + HOUR).toISOString()
  const ban = { type: 'ban', rule: 'login', client: ANN, banEndsAt }
  await app.ask('POST /login')
  expect(app.linesOf('client banned')).toEqual([])
  await app.ask('POST /login')
  expect(app.linesOf('client banned')).toEqual([expect.objectContaining({ level: 40, ...ban })])
  app.clock.advance(MINUTE)
  expect(await app.lineOf('GET /users')).toMatchObject({ status: 403, ...ban })
  expect(await app.lineOf('GET /users', BOB)).not.toHaveProperty('rule')
})

describe('a client with more strikes than maxretry and no ban', () => {
  const WRONG = { ...LOGIN, maxretry: 5 }

  test.each<[string, BanRule, BanRule]>([
    ['since maxretry is smaller', WRONG, { ...WRONG, maxretry: 2 }],
    [
      'since the rule bans in earnest',
      { ...WRONG, maxretry: 2, dryRun: true },
      { ...WRONG, maxretry: 2 },
    ],
  ])('is banned by its next one, %s', async (_, before, after) => {
    await app.startOver({ bans: [before] })
    expect(await app.statuses(3, 'POST /login')).toEqual([404, 404, 404])
    await app.change({ bans: [after] })
    expect(await denialOf(app)).toEqual(PASSED)
    expect(app.linesOf('client banned').filter(({ dryRun }) => !dryRun)).toEqual([])
    expect(await app.statusOf('POST /login')).toBe(403)
    expect(await denialOf(app)).toEqual([403, '3600'])
    expect(app.linesOf('client banned').filter(({ dryRun }) => !dryRun)).toHaveLength(1)
  })

  test('is banned by the answer to its next one, where answers count', async () => {
    const wrong: BanRule = { ...WRONG, status: [404] }
    await app.startOver({ bans: [wrong] })
    await app.statuses(3, 'POST /login')
    await app.change({ bans: [{ ...wrong, maxretry: 2 }] })
    expect(await app.statuses(2, 'POST /login')).toEqual([404, 403])
    expect(await denialOf(app)).toEqual([403, '3600'])
    await untilPasses(() => {
      expect(app.linesOf('client banned')).toHaveLength(1)
      expect(app.limitsReport().rules).toMatchObject([{ counted: 4, passed: 4, refused: 2 }])
    })
  })
})

describe('the orders of operators', () => {
  const listed = async () => (await app.bans().list({ limit: 100 })).bans

  test('go by the rules of the last reload, and forget strikes', async () => {
    await app.startOver({})
    const order = { rule: 'login', client: ANN, for: '1 minute' }
    await expect(app.bans().add(order)).rejects.toMatchObject({ code: 'validation_failed' })
    await app.change({ bans: [{ ...LOGIN, maxretry: 3 }] })
    await app.statuses(2, 'POST /login')
    await app.bans().add(order)
    expect(await app.statusOf('GET /users')).toBe(403)
    app.clock.advance(MINUTE)
    for (const selection of [{ clientKeys: [ANN] }, { rule: 'login' }]) {
      expect(await app.statuses(4, 'POST /login')).toEqual([404, 404, 404, 403])
      expect(await app.bans().lift(selection)).toBe(1)
    }
    expect(await app.statusOf('POST /login')).toBe(404)
  })

  test('at the same time leave what the store has', async () => {
    await app.startOver({ bans: [LOGIN] })
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

async function storedBans({ databaseUrl }: TestApp): Promise<number> {
  return (await selectRows(databaseUrl, 'SELECT rule FROM bans')).length
}

/** The service again, with the database and the clock that it had. */
async function restart(
  { databaseUrl, stop }: TestApp,
  limits: LimitsFile,
  { now }: FakeClock,
  env: TestAppOptions['env'] = {},
) {
  await stop()
  return openLimitedApp(limits, { env: { DATABASE_URL: databaseUrl, ...env }, now })
}

test('bans outlive restarts until their end, and act only while their rule is in force', async () => {
  const first = await openLimitedApp({ bans: [LOGIN] })
  const { clock } = first
  await first.statuses(5, 'POST /login')
  clock.advance(20 * MINUTE)
  let next: LimitedApp = first
  for (const [limits, env, denial] of [
    [{ bans: [LOGIN] }, {}, [403, '2400']],
    [{ bans: [] }, {}, PASSED],
    [{ bans: [{ ...LOGIN, name: 'other' }] }, {}, PASSED],
    [{ bans: [{ ...LOGIN, bantime: 1 }] }, {}, [403, '2400']],
    [{ bans: [{ ...LOGIN, dryRun: true }] }, {}, PASSED],
    [{ bans: [LOGIN] }, { CACHE_STORE: 'none' }, PASSED],
    [{ bans: [LOGIN] }, {}, [403, '2400']],
  ] as const) {
    next = await restart(next, limits, clock, env)
    expect([limits, await denialOf(next)]).toEqual([limits, denial])
    expect(await next.statusOf('GET /users', BOB)).toBe(200)
  }
  clock.advance(40 * MINUTE - 1)
  expect(await next.statusOf('GET /users')).toBe(403)
  clock.advance(1)
  expect(await next.statusOf('GET /users')).toBe(200)
  next = await restart(next, { bans: [LOGIN] }, clock)
  expect(await next.statusOf('GET /users')).toBe(200)
})

const DROP_BANS = 'DROP TABLE bans'

test('a ban that cannot be saved is still in force, and the log says so', async () => {
  const own = await openLimitedApp({ bans: [ONCE] })
  await executeSql(own.databaseUrl, DROP_BANS)
  expect(await own.statuses(2, 'POST /login')).toEqual([404, 403])
  const line = await until(() => own.linesOf('cannot persist a ban')[0])
  expect(line).toMatchObject({ level: 50 })
  expect(await own.statusOf('GET /users', BOB)).toBe(200)
})

test('bans that cannot be refreshed stay as they were, and the log says so', async () => {
  const own = await openLimitedApp({ bans: [ONCE] })
  await own.ask('POST /login')
  await until(async () => (await storedBans(own)) === 1)
  await executeSql(own.databaseUrl, DROP_BANS)
  const message = 'cannot refresh bans, keeping those already loaded'
  await until(() => own.linesOf(message).length > 0)
  expect(own.linesOf(message)).toEqual([expect.objectContaining({ level: 50 })])
  expect(await own.statusOf('GET /users')).toBe(403)
})

/** Another service of the same database, whose wall clock is ahead. */
function openWithClock(first: LimitedApp, aheadMs: number) {
  const { clock, databaseUrl } = first
  return openLimitedApp(
    { bans: [ONCE] },
    {
      env: { DATABASE_URL: databaseUrl },
      now: () => clock.now() + aheadMs,
      monotonicNow: clock.now,
    },
  )
}

/** On SQLite, only Linux tells the starts of a machine apart. */
const isClockShared = process.platform === 'linux' || byEngine({ sqlite: false, postgres: true })

describe.skipIf(!isClockShared).each([2 * HOUR, -2 * HOUR])(
  'a wall clock that was set on by %d ms',
  aheadMs => {
    test('neither shortens nor prolongs a ban for services that start later', async () => {
      const first = await openLimitedApp({ bans: [ONCE] })
      await first.statuses(1, 'POST /login')
      first.clock.advance(10 * MINUTE)
      const beside = await openWithClock(first, aheadMs)
      expect(await denialOf(beside)).toEqual([403, '3000'])
      // What this saves deletes bans that have ended.
      await beside.statuses(1, 'POST /login', BOB)
      await until(async () => (await first.statusOf('GET /users', BOB)) === 403)
      expect([await denialOf(first, BOB), await denialOf(first)]).toEqual([
        [403, '3600'],
        [403, '3000'],
      ])
      await Promise.all([first.stop(), beside.stop()])
      const alone = await openWithClock(first, aheadMs)
      expect([await denialOf(alone), await denialOf(alone, BOB)]).toEqual([
        [403, '3000'],
        [403, '3600'],
      ])
      first.clock.advance(50 * MINUTE)
      expect(await alone.statusOf('GET /users')).toBe(200)
    })

    test('does not shorten the bans that an operator makes', async () => {
      const first = await openLimitedApp({ bans: [ONCE] })
      const beside = await openWithClock(first, aheadMs)
      await beside.bans().add({ rule: 'login', client: ANN, for: '10 minutes' })
      await until(async () => (await first.statusOf('GET /users')) === 403)
      expect([await denialOf(first), await denialOf(beside)]).toEqual([
        [403, '600'],
        [403, '600'],
      ])
    })
  },
)

test('a ban is not prolonged by a restart with the clock an hour back and a longer bantime', async () => {
  const rule = { ...ONCE, bantime: 20 }
  const first = await openLimitedApp({ bans: [rule] })
  expect(await first.statuses(2, 'POST /login')).toEqual([404, 403])
  await first.stop()
  first.clock.advance(-HOUR + 2 * SECOND)
  const second = await restart(first, { bans: [{ ...rule, bantime: 60 }] }, first.clock)
  expect(await denialOf(second)).toEqual([403, '20'])
  first.clock.advance(20 * SECOND)
  expect(await second.statusOf('GET /users')).toBe(200)
})
