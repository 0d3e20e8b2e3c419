import { describe, expect, test } from 'vitest'
import type { BanRule, TrackRule } from '../../src/limits/kinds/define-limits.ts'
import { ANN, BOB, HOUR, MINUTE, shareLimitedApp } from '../support/limited-app.ts'
import { requestBytes, sendRaw } from '../support/raw-http.ts'
import { selectRows } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'

/** Bans a client that asks for what is not there. */
const LOST: BanRule = {
  name: 'lost',
  status: [404, 410],
  maxretry: 3,
  findtime: '1 minute',
  bantime: '1 hour',
}

const USERS = 'GET /users'
const NONE = 'GET /users/7'
const ELSEWHERE = 'GET /nowhere'

const app = shareLimitedApp()

/** The statuses of these requests, one after the other. */
async function statusesOf(lines: readonly string[], client = ANN) {
  const found = []
  for (const line of lines) found.push(await app.statusOf(line, client))
  return found
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

  test('counts within findtime, by any key, and matches by its other keys', async () => {
    await app.startOver({ bans: [{ ...LOST, path: '/users/*', by: 'header:x-tool' }] })
    const from = (tool: string) => ({ 'X-Tool': tool })
    expect(await app.statuses(4, NONE)).toEqual(Array(4).fill(404))
    expect(await app.statuses(4, ELSEWHERE, from('a'))).toEqual(Array(4).fill(404))
    expect(await app.statuses(2, NONE, from('a'))).toEqual([404, 404])
    app.clock.advance(MINUTE)
    expect(await app.statuses(4, NONE, from('a'))).toEqual([404, 404, 404, 403])
    expect(await app.statusOf(NONE, from('b'))).toBe(404)
  })

  test.each([
    ['a path that cannot be decoded', 400, 'GET /users/%zz', {}],
    ['a type that is not there', 406, 'GET /users', { Accept: 'image/png' }],
    ['a page', 200, 'GET /docs', {}],
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
    expect(await app.statuses(4, 'POST /users')).toEqual([422, 422, 429, 403])
  })

  test('does not count what the filter itself has refused', async () => {
    const { status: _, ...anyAnswer } = LOST
    await app.startOver({
      blocklist: [{ name: 'tools', userAgent: 'nikto' }],
      bans: [
        { ...LOST, maxretry: 1, name: 'refused', status: [403, 429] },
        { ...anyAnswer, name: 'probing', path: '/wp-*', mode: 'fail2ban', maxretry: 9 },
      ],
      throttle: [{ name: 'all', limit: 3, period: '1 minute', path: '/users' }],
    })
    expect(await app.statusOf(USERS, { 'User-Agent': 'nikto' })).toBe(403)
    expect(await app.statusOf('GET /wp-admin')).toBe(403)
    expect(await app.statuses(5, USERS)).toEqual([200, 200, 200, 429, 429])
    expect(await app.statusOf(NONE)).toBe(404)
  })

  test('is logged, published and stored once when it begins', async () => {
    await app.startOver({ bans: [{ ...LOST, name: 'stored' }] })
    await app.statuses(2, NONE)
    expect(app.linesOf('client banned')).toEqual([])
    await app.ask(NONE)
    const line = { level: 40, type: 'ban', rule: 'stored', client: ANN, limit: 3 }
    await untilPasses(async () => {
      expect(app.linesOf('client banned')).toMatchObject([line])
      const query = `SELECT client_key FROM bans WHERE rule = 'stored'`
      expect(await selectRows(app.databaseUrl, query)).toEqual([{ client_key: ANN }])
      const counted = { key: ANN, count: 3, limit: 3, period: MINUTE }
      expect(app.notices).toMatchObject([{ type: 'ban', rule: 'stored', ...counted }])
    })
  })

  test('of requests at once begins when enough of them are answered', async () => {
    await app.startOver({ bans: [LOST] })
    const found = await Promise.all(Array.from({ length: 20 }, () => app.statusOf(NONE)))
    expect(found.filter(status => status === 404).length).toBeGreaterThanOrEqual(3)
    expect(await app.statusOf(USERS)).toBe(403)
    await untilPasses(() => expect(app.linesOf('client banned')).toHaveLength(1))
    app.clock.advance(HOUR)
    // The answers that came after the ban began do not count.
    expect(await statusesOf([NONE, NONE, USERS])).toEqual([404, 404, 200])
  })

  test('counts a client that leaves before its answer, once the status is decided', async () => {
    await app.startOver(`{
      bans: [${JSON.stringify({ ...LOST, maxretry: 1 })}],
      rateLimits: [{ to: 1, within: 60, by: () => 'all', with: (request, response, next) => {
        response.once('close', () => setTimeout(next, 10))
      } }],
    }`)
    await app.ask(USERS, BOB)
    const { socket } = sendRaw(app.port, requestBytes(NONE, { 'X-Forwarded-For': ANN }))
    await until(() => app.limitsReport().rules[1]?.counted === 2)
    socket.resetAndDestroy()
    await untilPasses(async () => expect(await app.statusOf('GET /docs')).toBe(403))
    expect(await app.statusOf('GET /docs', BOB)).toBe(200)
  })

  test('in dry run is reported, stores nothing, and lets everything pass', async () => {
    await app.startOver({ bans: [{ ...LOST, name: 'tried', dryRun: true }] })
    expect(await statusesOf([NONE, NONE, NONE, NONE, USERS])).toEqual([404, 404, 404, 404, 200])
    const line = { rule: 'tried', dryRun: true }
    await untilPasses(() => expect(app.linesOf('client banned')).toMatchObject([line]))
    const query = `SELECT rule FROM bans WHERE rule LIKE 'tried%'`
    expect(await selectRows(app.databaseUrl, query)).toEqual([])
    expect(app.notices.filter(({ dryRun }) => dryRun !== true)).toEqual([])
  })
})

test('a track with status reports answers with one of these, with a limit only those past it', async () => {
  const track: TrackRule = { name: 'lost', status: [404] }
  await app.startOver({ track: [track, { ...track, name: 'often', limit: 2, period: 60 }] })
  await statusesOf([NONE, USERS, ELSEWHERE, NONE, USERS, NONE])
  const line = { level: 30, type: 'track', client: ANN }
  await untilPasses(() => {
    expect(app.trackedRules()).toEqual(['lost', 'lost', 'lost', 'often', 'lost'])
    expect(app.linesOf('request tracked')).toMatchObject(Array(5).fill(line))
  })
  const often = app.notices.filter(({ rule }) => rule === 'often')
  expect(often.map(({ count }) => count)).toEqual([3, 4])
})

test.each([
  ['answers', 418, 'response.status(418).json({})'],
  ['answers later', 418, 'setImmediate(() => response.status(418).json({}))'],
  ['lets the request pass', 200, 'next()'],
])('the answer to a function under with that %s is counted once', async (_what, status, code) => {
  await app.startOver(`{
    track: [{ name: 'seen', status: [200, 418] }],
    rateLimits: [
      { to: 1, within: 60, with: (request, response, next) => { ${code} } },
      { name: 'other', to: 1, within: 60, with: (request, response, next) => next() },
    ],
  }`)
  expect(await app.statuses(3, USERS)).toEqual([200, status, status])
  expect(app.trackedRules()).toEqual(['seen', 'seen', 'seen'])
})
