import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import type { BanRule, TrackRule } from '../../src/limits/rules/limits-file.ts'
import { newUserBody } from '../support/builders.ts'
import {
  ANN,
  BOB,
  HOUR,
  type LimitedApp,
  MINUTE,
  openLimitedApp,
  shareLimitedApp,
} from '../support/limited-app.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { selectRows } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

/** Bans a client that asks for what is not there. */
const LOST: BanRule = {
  name: 'lost',
  status: [404, 410],
  maxretry: 3,
  findtime: '1 minute',
  bantime: '1 hour',
}

const LOST_ONCE: BanRule = { ...LOST, maxretry: 1 }

const USERS = 'GET /users'
const NONE = 'GET /users/7'
const ELSEWHERE = 'GET /nowhere'

const app = shareLimitedApp()

/** The statuses of these requests, one after the other. */
async function statusesOf(lines: readonly string[], client = ANN, { statusOf }: LimitedApp = app) {
  const found = []
  for (const line of lines) found.push(await statusOf(line, client))
  return found
}

/** A service whose rules are this code. */
function openWithModule(code: string): Promise<LimitedApp> {
  const path = join(temporaryFolder(), 'limits.mjs')
  writeFileSync(path, `export default ${code}`)
  return openLimitedApp({}, { env: { LIMITS_FILE: path } })
}

describe('a ban with status', () => {
  test('counts only answers with one of these, and begins with the next request', async () => {
    await app.startOver({ bans: [LOST] })
    const lines = [NONE, USERS, ELSEWHERE, USERS, USERS, 'DELETE /users/7']
    expect(await statusesOf(lines)).toEqual([404, 200, 404, 200, 200, 404])
    const denied = await app.ask(USERS)
    expect([denied.status, denied.headers['retry-after']]).toEqual([403, '3600'])
    expect(await statusesOf([USERS, NONE], BOB)).toEqual([200, 404])
    app.clock.advance(HOUR)
    expect(await statusesOf([NONE, NONE, USERS, NONE, USERS])).toEqual([404, 404, 200, 404, 403])
  })

  test('counts within findtime', async () => {
    await app.startOver({ bans: [LOST] })
    expect(await statusesOf([NONE, NONE])).toEqual([404, 404])
    app.clock.advance(MINUTE)
    expect(await statusesOf([NONE, NONE, USERS, NONE, USERS])).toEqual([404, 404, 200, 404, 403])
  })

  test('matches by its other keys too', async () => {
    await app.startOver({ bans: [{ ...LOST, path: '/users/*' }] })
    expect(await app.statuses(5, ELSEWHERE)).toEqual(Array(5).fill(404))
    expect(await statusesOf([NONE, 'HEAD /users/8', NONE, USERS])).toEqual([404, 404, 404, 403])
  })

  test('counts by any key, and not a request without it', async () => {
    await app.startOver({ bans: [{ ...LOST, by: 'header:x-tool' }] })
    expect(await app.statuses(4, NONE)).toEqual([404, 404, 404, 404])
    expect(await app.statuses(4, NONE, { 'X-Tool': 'a' })).toEqual([404, 404, 404, 403])
    expect(await app.statusOf(NONE, { 'X-Tool': 'b' })).toBe(404)
  })

  test.each([
    ['a path that cannot be decoded', 400, 'GET /users/%zz', {}],
    ['a method that its path does not know', 405, 'PATCH /users', {}],
    ['a type that is not there', 406, 'GET /users', { Accept: 'image/png' }],
    ['a page', 200, 'GET /docs', {}],
    ['OPTIONS', 204, 'OPTIONS /users', {}],
    ['HEAD', 200, 'HEAD /users', {}],
  ])('counts the answer to %s', async (_what, status, line, headers) => {
    await app.startOver({ bans: [{ ...LOST, maxretry: 2, status: [status] }] })
    expect(await app.statuses(3, line, headers)).toEqual([status, status, 403])
  })

  test('counts the 422 of a body and the 429 of a route limit', async () => {
    await app.startOver({
      bans: [{ ...LOST, status: [422, 429] }],
      rateLimits: [{ name: 'sign-ups', to: 2, within: '1 hour', only: ['create'] }],
    })
    const found = []
    for (const body of [{}, newUserBody(), {}, {}, {}]) {
      found.push((await app.ask('POST /users').send(body)).status)
    }
    expect(found).toEqual([422, 201, 429, 429, 403])
  })

  test('does not count what the filter itself has refused', async () => {
    const { status: _, ...anyAnswer } = LOST
    await app.startOver({
      blocklist: [{ name: 'tools', userAgent: 'nikto' }],
      bans: [
        { ...LOST_ONCE, name: 'refused', status: [403, 429] },
        { ...anyAnswer, name: 'probing', path: '/wp-*', mode: 'fail2ban', maxretry: 9 },
      ],
      throttle: [{ name: 'all', limit: 3, period: '1 minute', path: '/users' }],
    })
    expect(await app.statusOf(USERS, { 'User-Agent': 'nikto' })).toBe(403)
    expect(await app.statusOf('GET /wp-admin')).toBe(403)
    expect(await app.statuses(5, USERS)).toEqual([200, 200, 200, 429, 429])
    expect(await app.statusOf(NONE)).toBe(404)
  })

  test('counts a request that a rule in dry run would have refused', async () => {
    await app.startOver({ blocklist: [{ name: 'all', dryRun: true }], bans: [LOST_ONCE] })
    expect(await statusesOf([NONE, USERS])).toEqual([404, 403])
  })

  test('does not count for a client that a safelist lets pass', async () => {
    await app.startOver({ safelist: [{ ip: ANN }], bans: [LOST_ONCE] })
    expect(await statusesOf([NONE, NONE, USERS])).toEqual([404, 404, 200])
    expect(await statusesOf([NONE, USERS], BOB)).toEqual([404, 403])
  })

  test('is logged, published and stored once when it begins', async () => {
    await app.startOver({ bans: [{ ...LOST, name: 'stored' }] })
    await app.statuses(2, NONE)
    expect(app.linesOf('client banned')).toEqual([])
    await app.ask(NONE)
    const line = { level: 40, type: 'ban', rule: 'stored', client: ANN, limit: 3 }
    await untilPasses(async () => {
      expect(app.linesOf('client banned')).toEqual([expect.objectContaining(line)])
      const query = `SELECT client_key FROM bans WHERE rule = 'stored'`
      expect(await selectRows(app.databaseUrl, query)).toEqual([{ client_key: ANN }])
    })
    const counted = { key: ANN, count: 3, limit: 3, period: MINUTE }
    expect(app.notices).toEqual([
      expect.objectContaining({ type: 'ban', rule: 'stored', ...counted }),
    ])
  })

  test('of requests at once begins when enough of them are answered', async () => {
    await app.startOver({ bans: [LOST] })
    const found = await Promise.all(Array.from({ length: 20 }, () => app.statusOf(NONE)))
    expect(found.filter(status => status !== 404 && status !== 403)).toEqual([])
    expect(found.filter(status => status === 404).length).toBeGreaterThanOrEqual(3)
    expect(await app.statusOf(USERS)).toBe(403)
    await untilPasses(() => expect(app.linesOf('client banned')).toHaveLength(1))
    app.clock.advance(HOUR)
    // The answers that came after the ban began do not count.
    expect(await statusesOf([NONE, NONE, USERS])).toEqual([404, 404, 200])
  })

  test('in dry run is reported, and lets everything pass', async () => {
    await app.startOver({ bans: [{ ...LOST, name: 'tried', dryRun: true }] })
    expect(await statusesOf([NONE, NONE, NONE, NONE, USERS])).toEqual([404, 404, 404, 404, 200])
    const line = { rule: 'tried', dryRun: true }
    await untilPasses(() => {
      expect(app.linesOf('client banned')).toEqual([expect.objectContaining(line)])
    })
    const query = `SELECT rule FROM bans WHERE rule LIKE 'tried%'`
    expect(await selectRows(app.databaseUrl, query)).toEqual([])
    expect(app.notices.filter(({ dryRun }) => dryRun !== true)).toEqual([])
  })

  test('counts the answer that a function of a route limit gives', async () => {
    const own = await openWithModule(`{
      bans: [{ name: 'busy', status: [418], maxretry: 2, findtime: 60, bantime: 60 }],
      rateLimits: [{ to: 1, within: 60, with: (request, response) => response.status(418).json({}) }],
    }`)
    expect(await own.statuses(4, USERS)).toEqual([200, 418, 418, 403])
  })

  test('lets a request pass whose function fails', async () => {
    const fail = `() => { throw new Error('oh no') }`
    const rule = 'status: [404], maxretry: 1, findtime: 60, bantime: 60'
    const own = await openWithModule(`{
      bans: [{ ${rule}, match: ${fail} }, { ${rule}, by: ${fail} }],
    }`)
    expect(await own.statuses(2, NONE)).toEqual([404, 404])
    await untilPasses(() => {
      expect(own.linesOf('rule function failed, request allowed')).toHaveLength(4)
    })
  })
})

describe('a track with status', () => {
  const TRACK: TrackRule = { name: 'lost', status: [404] }

  test('without a limit reports every answer with one of these', async () => {
    await app.startOver({ track: [TRACK] })
    await statusesOf([NONE, USERS, ELSEWHERE])
    const line = { level: 30, type: 'track', rule: 'lost', client: ANN }
    await untilPasses(() => {
      expect(app.linesOf('request tracked')).toEqual([
        expect.objectContaining(line),
        expect.objectContaining(line),
      ])
    })
    const notice = { type: 'track', rule: 'lost' }
    expect(app.notices).toMatchObject([notice, notice])
  })

  test('with a limit reports those past it, and logs the first in the window', async () => {
    await app.startOver({ track: [{ ...TRACK, limit: 2, period: '1 minute' }] })
    await statusesOf([NONE, USERS, NONE, USERS, USERS])
    expect(app.linesOf('request tracked')).toEqual([])
    await statusesOf([NONE, NONE, USERS])
    await untilPasses(() => expect(app.linesOf('request tracked')).toHaveLength(1))
    expect(app.notices.map(({ count }) => count)).toEqual([3, 4])
  })
})

test('with CACHE_STORE=none status counts for no ban, but a track without a limit acts', async () => {
  const limits = { bans: [LOST_ONCE], track: [{ name: 'track', status: [404] }] }
  const own = await openLimitedApp(limits, { env: { CACHE_STORE: 'none' } })
  expect(await statusesOf([NONE, NONE, USERS], ANN, own)).toEqual([404, 404, 200])
  await untilPasses(() => expect(own.trackedRules()).toEqual(['track', 'track']))
})
