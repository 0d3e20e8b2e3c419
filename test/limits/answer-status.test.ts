import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { CHANNEL_NAME, type Notice } from '../../src/limits/notices.ts'
import type { BanRule, LimitsFile, TrackRule } from '../../src/limits/rules/limits-file.ts'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestAppOptions, temporaryFolder } from '../support/open-test-app.ts'
import { selectRows } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

const ANN = '198.51.100.1'
const BOB = '198.51.100.2'
const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** Bans a client that asks for what is not there. */
const LOST: BanRule = {
  name: 'lost',
  status: [404, 410],
  maxretry: 3,
  findtime: '1 minute',
  bantime: '1 hour',
}

async function openWith(limits: LimitsFile | undefined, env: TestAppOptions['env'] = {}) {
  const clock = createFakeClock()
  const app = await openTestApp({
    ...(limits && { limits }),
    env: { TRUST_PROXY: '1', ...env },
    now: clock.now,
  })
  const notices: Notice[] = []
  const listen = (message: unknown) => {
    const notice = message as Notice
    if (notice.request.socket.localPort === app.port) notices.push(notice)
  }
  subscribe(CHANNEL_NAME, listen)
  onTestFinished(() => {
    unsubscribe(CHANNEL_NAME, listen)
  })

  async function ask(line: string, client = ANN, headers: Record<string, string> = {}) {
    const [method = '', path = ''] = line.split(' ')
    const request = app.http[method.toLowerCase() as 'get'](path)
    return request.set({ 'X-Forwarded-For': client, ...headers })
  }

  async function statuses(lines: readonly string[], client?: string): Promise<number[]> {
    const found = []
    for (const line of lines) found.push((await ask(line, client)).status)
    return found
  }

  return {
    ...app,
    clock,
    ask,
    statuses,
    notices,
    linesOf: (message: string) => app.logLines.filter(({ msg }) => msg === message),
  }
}

const USERS = 'GET /users'
const NONE = 'GET /users/7'
const ELSEWHERE = 'GET /nowhere'

describe('a ban with status', () => {
  test('counts only answers with one of these, and begins with the next request', async () => {
    const app = await openWith({ bans: [LOST] })
    expect(await app.statuses([NONE, USERS, ELSEWHERE, USERS, USERS, 'DELETE /users/7'])).toEqual([
      404, 200, 404, 200, 200, 404,
    ])
    const denied = await app.ask(USERS)
    expect([denied.status, denied.headers['retry-after']]).toEqual([403, '3600'])
    expect(await app.statuses([USERS, NONE], BOB)).toEqual([200, 404])
    app.clock.advance(HOUR)
    expect(await app.statuses([NONE, NONE, USERS, NONE, USERS])).toEqual([404, 404, 200, 404, 403])
  })

  test('counts within findtime', async () => {
    const app = await openWith({ bans: [LOST] })
    expect(await app.statuses([NONE, NONE])).toEqual([404, 404])
    app.clock.advance(MINUTE)
    expect(await app.statuses([NONE, NONE, USERS, NONE, USERS])).toEqual([404, 404, 200, 404, 403])
  })

  test('matches by its other keys too', async () => {
    const app = await openWith({ bans: [{ ...LOST, path: '/users/*' }] })
    const elsewhere = Array.from({ length: 5 }, () => ELSEWHERE)
    expect(new Set(await app.statuses(elsewhere))).toEqual(new Set([404]))
    expect(await app.statuses([NONE, 'HEAD /users/8', NONE, USERS])).toEqual([404, 404, 404, 403])
  })

  test('counts by any key, and not a request without it', async () => {
    const app = await openWith({ bans: [{ ...LOST, by: 'header:x-tool' }] })
    const ask = async (headers: Record<string, string>) =>
      (await app.ask(NONE, ANN, headers)).status
    const found = []
    for (let count = 0; count < 4; count++) found.push(await ask({}))
    for (let count = 0; count < 4; count++) found.push(await ask({ 'X-Tool': 'a' }))
    expect(found).toEqual([404, 404, 404, 404, 404, 404, 404, 403])
    expect(await ask({ 'X-Tool': 'b' })).toBe(404)
  })

  test.each([
    ['a path that cannot be decoded', 400, 'GET /users/%zz', {}],
    ['a method that its path does not know', 405, 'PATCH /users', {}],
    ['a type that is not there', 406, 'GET /users', { Accept: 'image/png' }],
    ['a page', 200, 'GET /docs', {}],
    ['OPTIONS', 204, 'OPTIONS /users', {}],
    ['HEAD', 200, 'HEAD /users', {}],
  ])('counts the answer to %s', async (_what, status, line, headers) => {
    const app = await openWith({ bans: [{ ...LOST, maxretry: 2, status: [status] }] })
    expect((await app.ask(line, ANN, headers)).status).toBe(status)
    expect((await app.ask(line, ANN, headers)).status).toBe(status)
    expect((await app.ask(line, ANN, headers)).status).toBe(403)
  })

  test('counts the 422 of a body and the 429 of a route limit', async () => {
    const app = await openWith({
      bans: [{ ...LOST, status: [422, 429] }],
      rateLimits: [{ name: 'sign-ups', to: 2, within: '1 hour', only: ['create'] }],
    })
    const create = (body: object) => app.http.post('/users').set('X-Forwarded-For', ANN).send(body)
    const found = []
    for (const body of [{}, newUserBody(), {}, {}, {}]) found.push((await create(body)).status)
    expect(found).toEqual([422, 201, 429, 429, 403])
  })

  test('does not count what the filter itself has refused', async () => {
    const app = await openWith({
      blocklist: [{ name: 'tools', userAgent: 'nikto' }],
      bans: [
        { ...LOST, name: 'refused', status: [403, 429], maxretry: 1 },
        {
          ...LOST,
          name: 'probing',
          path: '/wp-*',
          mode: 'fail2ban',
          maxretry: 9,
          status: undefined,
        },
      ] as BanRule[],
      throttle: [{ name: 'all', limit: 3, period: '1 minute', path: '/users' }],
    })
    expect((await app.ask(USERS, ANN, { 'User-Agent': 'nikto' })).status).toBe(403)
    expect(await app.statuses(['GET /wp-admin', USERS, USERS, USERS, USERS, USERS])).toEqual([
      403, 200, 200, 200, 429, 429,
    ])
    expect((await app.ask(NONE)).status).toBe(404)
  })

  test('counts a request that a rule in dry run would have refused', async () => {
    const app = await openWith({
      blocklist: [{ name: 'all', dryRun: true }],
      bans: [{ ...LOST, maxretry: 1 }],
    })
    expect(await app.statuses([NONE, USERS])).toEqual([404, 403])
  })

  test('does not count for a client that a safelist lets pass', async () => {
    const app = await openWith({ safelist: [{ ip: ANN }], bans: [{ ...LOST, maxretry: 1 }] })
    expect(await app.statuses([NONE, NONE, USERS])).toEqual([404, 404, 200])
    expect(await app.statuses([NONE, USERS], BOB)).toEqual([404, 403])
  })

  test('is logged, published and stored once when it begins', async () => {
    const app = await openWith({ bans: [LOST] })
    await app.statuses([NONE, NONE])
    expect(app.linesOf('client banned')).toEqual([])
    await app.statuses([NONE])
    await untilPasses(async () => {
      expect(app.linesOf('client banned')).toEqual([
        expect.objectContaining({ level: 40, type: 'ban', rule: 'lost', client: ANN, limit: 3 }),
      ])
      expect(await selectRows(app.databaseUrl, 'SELECT rule, client_key FROM bans')).toEqual([
        { rule: 'lost', client_key: ANN },
      ])
    })
    const counted = { key: ANN, count: 3, limit: 3, period: MINUTE }
    expect(app.notices).toEqual([
      expect.objectContaining({ type: 'ban', rule: 'lost', ...counted }),
    ])
  })

  test('of requests at once begins when enough of them are answered', async () => {
    const app = await openWith({ bans: [LOST] })
    const found = await Promise.all(Array.from({ length: 20 }, () => app.ask(NONE)))
    const kinds = new Set(found.map(({ status }) => status))
    expect([...kinds].every(status => status === 404 || status === 403)).toBe(true)
    expect(found.filter(({ status }) => status === 404).length).toBeGreaterThanOrEqual(3)
    expect((await app.ask(USERS)).status).toBe(403)
    await untilPasses(() => expect(app.linesOf('client banned')).toHaveLength(1))
    app.clock.advance(HOUR)
    // The answers that came after the ban began do not count.
    expect(await app.statuses([NONE, NONE, USERS])).toEqual([404, 404, 200])
  })

  test('in dry run is reported, and lets everything pass', async () => {
    const app = await openWith({ bans: [{ ...LOST, dryRun: true }] })
    expect(await app.statuses([NONE, NONE, NONE, NONE, USERS])).toEqual([404, 404, 404, 404, 200])
    const line = { rule: 'lost', dryRun: true }
    await untilPasses(() => {
      expect(app.linesOf('client banned')).toEqual([expect.objectContaining(line)])
    })
    expect(await selectRows(app.databaseUrl, 'SELECT rule FROM bans')).toEqual([])
    expect(app.notices.filter(({ dryRun }) => dryRun !== true)).toEqual([])
  })

  test('does nothing with CACHE_STORE=none', async () => {
    const app = await openWith({ bans: [{ ...LOST, maxretry: 1 }] }, { CACHE_STORE: 'none' })
    expect(await app.statuses([NONE, NONE, USERS])).toEqual([404, 404, 200])
  })

  test('counts the answer that a function of a route limit gives', async () => {
    const path = join(temporaryFolder(), 'limits.mjs')
    writeFileSync(
      path,
      `export default {
        bans: [{ name: 'busy', status: [418], maxretry: 2, findtime: 60, bantime: 60 }],
        rateLimits: [{ to: 1, within: 60, with: (request, response) => response.status(418).json({}) }],
      }`,
    )
    const app = await openWith(undefined, { LIMITS_FILE: path })
    expect(await app.statuses([USERS, USERS, USERS, USERS])).toEqual([200, 418, 418, 403])
  })

  test('lets a request pass whose function fails', async () => {
    const path = join(temporaryFolder(), 'limits.mjs')
    writeFileSync(
      path,
      `const fail = () => { throw new Error('oh no') }
      const rule = { status: [404], maxretry: 1, findtime: 60, bantime: 60 }
      export default { bans: [{ ...rule, match: fail }, { ...rule, by: fail }] }`,
    )
    const app = await openWith(undefined, { LIMITS_FILE: path })
    expect(await app.statuses([NONE, NONE])).toEqual([404, 404])
    await untilPasses(() => {
      expect(app.linesOf('rule function failed, request allowed')).toHaveLength(4)
    })
  })
})

describe('a track with status', () => {
  const TRACK: TrackRule = { name: 'lost', status: [404] }

  test('without a limit reports every answer with one of these', async () => {
    const app = await openWith({ track: [TRACK] })
    await app.statuses([NONE, USERS, ELSEWHERE])
    await untilPasses(() => {
      expect(app.linesOf('request tracked')).toEqual([
        expect.objectContaining({ level: 30, type: 'track', rule: 'lost', client: ANN }),
        expect.objectContaining({ rule: 'lost' }),
      ])
    })
    expect(app.notices.map(({ type, rule }) => [type, rule])).toEqual([
      ['track', 'lost'],
      ['track', 'lost'],
    ])
  })

  test('with a limit reports those past it, and logs the first in the window', async () => {
    const app = await openWith({ track: [{ ...TRACK, limit: 2, period: '1 minute' }] })
    await app.statuses([NONE, USERS, NONE, USERS, USERS])
    expect(app.linesOf('request tracked')).toEqual([])
    await app.statuses([NONE, NONE, USERS])
    await untilPasses(() => expect(app.linesOf('request tracked')).toHaveLength(1))
    expect(app.notices.map(({ count }) => count)).toEqual([3, 4])
  })

  test('without a limit works with CACHE_STORE=none too', async () => {
    const app = await openWith({ track: [TRACK] }, { CACHE_STORE: 'none' })
    await app.statuses([NONE])
    await untilPasses(() => expect(app.linesOf('request tracked')).toHaveLength(1))
  })
})
