import { rmSync, writeFileSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import { watchReloads } from '../../src/cli/serve/signals.ts'
import { MINUTE, shareLimitedApp } from '../support/limited-app.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { beginPost, CLOSING } from '../support/raw-http.ts'

const RELOADED = 'limits reloaded'

const app = shareLimitedApp()

/** The status of a request of this agent, which `blocking` refuses. */
const statusOf = (agent: string) => app.statusOf('GET /users', { 'User-Agent': agent })

const blocking = (agent: string) => ({ blocklist: [{ name: agent, userAgent: agent }] })

test('a reload on SIGHUP that failed ends nothing, and the next one reloads', async () => {
  const { begin, request, end } = watchReloads(['SIGHUP'])
  onTestFinished(end)
  const unhandled: unknown[] = []
  const listen = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', listen)
  onTestFinished(() => void process.off('unhandledRejection', listen))
  let reloads = 0
  begin(async () => {
    if (++reloads === 1) throw new Error('no')
    return undefined
  })
  process.emit('SIGHUP', 'SIGHUP')
  expect(await request()).toBeUndefined()
  await new Promise(setImmediate)
  expect([reloads, unhandled]).toEqual([2, []])
})

describe('a reload', () => {
  test.each([
    { kind: 'rateLimits', rule: (to: number) => ({ to, within: 60 }), over: 429 },
    { kind: 'throttle', rule: (limit: number) => ({ limit, period: 60 }), over: 429 },
    {
      kind: 'bans',
      rule: (maxretry: number) => ({ maxretry: maxretry + 1, findtime: 60, bantime: 60 }),
      over: 403,
    },
  ])('keeps the counters of $kind by kind and name', async ({ kind, rule, over }) => {
    await app.startOver({ [kind]: [{ name: 'a', ...rule(3) }] })
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
    // Another place in the file and another limit, but the same rule by its name.
    const added = { name: 'new', ...rule(90) }
    await app.change({ [kind]: [added, { name: 'a', ...rule(4) }] })
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 200])
    await app.change({ [kind]: [{ name: 'b', ...rule(4) }] })
    expect(await app.statuses(4, 'GET /users')).toEqual([200, 200, 200, 200])
    await app.reloadLimits()
    // A ban rule bans with the last allowed strike, and refuses from the next request on.
    const last = kind === 'bans' ? [200, over] : [over, over]
    expect(await app.statuses(2, 'GET /users')).toEqual(last)
  })

  test('lets the windows of a rule that goes run on, and the rule finds them when it comes back', async () => {
    const rules = { throttle: [{ name: 'a', limit: 2, period: 60 }] }
    await app.startOver(rules)
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 200, 429])
    await app.change({ track: [{ name: 'a', limit: 2, period: 60 }] })
    app.clock.advance(MINUTE - 1)
    await app.change(rules)
    expect(await app.statusOf('GET /users')).toBe(429)
    await app.change({})
    app.clock.advance(1)
    await app.change(rules)
    expect(await app.statuses(3, 'GET /users')).toEqual([200, 200, 429])
  })

  test('keeps bans; those of a removed rule have no effect until it comes back', async () => {
    const once = { name: 'once', path: '/users', maxretry: 1, findtime: 60, bantime: 600 }
    await app.startOver({ bans: [once] })
    expect(await app.statuses(2, 'GET /users')).toEqual([200, 403])
    await app.change({ bans: [once], track: [{ name: 'more' }] })
    expect(await app.statusOf('GET /users')).toBe(403)
    // A throttle of the same name has no counter and no ban of it.
    await app.change({ throttle: [{ name: 'once', limit: 1, period: 60 }] })
    expect(await app.statusOf('GET /users')).toBe(200)
    app.clock.advance(100_000)
    await app.change({ bans: [once] })
    const { status, headers } = await app.ask('GET /users')
    expect([status, headers['retry-after']]).toEqual([403, '500'])
  })

  test('of a file that is wrong keeps the previous rules and logs each mistake', async () => {
    await app.startOver(blocking('first'))
    for (const [text, mistakes] of [
      ['export default []', [/must hold an object/]],
      ['throw new Error("boom")', [/boom/]],
      [
        'export default { rateLimits: [null], blocklist: [{ userAgnt: "x" }] }',
        [/^blocklist\[0\]: unknown key "userAgnt", did/, /^rateLimits\[0\]: must be an object$/],
      ],
      [undefined, [/cannot be read \(ERR_MODULE_NOT_FOUND/]],
    ] as const) {
      app.logLines.length = 0
      if (text === undefined) rmSync(app.limitsPath)
      else writeFileSync(app.limitsPath, text)
      await expect(app.reloadLimits()).rejects.toMatchObject({ code: 'limits_invalid' })
      const line = { level: 50, mistakes: mistakes.map(mistake => expect.stringMatching(mistake)) }
      const lines = app.linesOf('limits file is invalid, keeping the previous rules')
      expect(lines).toEqual([expect.objectContaining(line)])
      expect(await statusOf('first')).toBe(403)
    }
    await app.change(blocking('second'))
    expect([await statusOf('first'), await statusOf('second')]).toEqual([200, 403])
  })

  test('without LIMITS_FILE logs a line, and the service lives', async () => {
    const { http, logLines, reloadLimits } = await openTestApp()
    await reloadLimits()
    const msg = 'reload ignored: LIMITS_FILE is not set'
    expect(logLines.filter(line => line.msg === msg)).toHaveLength(1)
    const { headers } = await http.get('/users').expect(200)
    expect(headers).not.toHaveProperty('ratelimit')
  })

  test('reads a module again, logs which of its rules have another function, and warns as the start does', async () => {
    const rules = (agent: string, by: string) => `{
      blocklist: [{ name: 'agent', match: request => request.get('user-agent') === '${agent}' }],
      throttle: [
        { name: 'same', limit: 1000, period: 60, by: request => request.ip },
        { name: 'list', limit: 1000, period: 60, by: ['host', request => ${by}] },
      ],
      track: [{ name: 'asked', path: '/search${by === '2' ? '?q' : ''}' }],
    }`
    await app.startOver(rules('first', '1'))
    expect([await statusOf('first'), await statusOf('sec ond')]).toEqual([403, 200])
    await app.change(rules('sec ond', '2'))
    expect([await statusOf('first'), await statusOf('sec ond')]).toEqual([200, 403])
    expect(app.linesOf(RELOADED).at(-1)).toMatchObject({
      ...{ came: [], went: [] },
      changed: ['blocklist "agent"', 'throttle "list"', 'track "asked"'],
    })
    const warning = 'track "asked" has the path "/search?q": a path has no query, use the key query'
    const line = expect.objectContaining({ level: 40, warning })
    expect(app.linesOf('limits may not work as intended')).toEqual([line])
  })

  test('logs which rules came, went and changed, by kind and name', async () => {
    const safelist = [{ name: 'same', ip: '10.0.0.1' }]
    const all = { limit: 1000, period: 60 }
    await app.startOver({
      safelist,
      blocklist: [
        { name: 'changed', header: { 'X-A': ['1', { regex: 'x' }] } },
        { name: 'moved', path: '/a' },
      ],
      throttle: [all, { name: 'went', ...all }],
    })
    await app.reloadLimits()
    expect(app.linesOf(RELOADED).at(-1)).toMatchObject({ came: [], went: [], changed: [] })
    await app.change({
      safelist,
      blocklist: [
        { path: '/a', name: 'moved' },
        { name: 'changed', header: { 'X-A': ['1', { regex: 'y' }] } },
      ],
      throttle: [{ ...all, limit: 999 }],
      track: [{ name: 'went' }],
    })
    expect(app.linesOf(RELOADED).at(-1)).toMatchObject({
      level: 30,
      ...{ came: ['track "went"'], went: ['throttle "went"'] },
      changed: ['blocklist "changed"', 'throttle "throttle[0]"'],
    })
  })

  test('does not disturb a request whose body is still arriving', async () => {
    await app.startOver({ rateLimits: [{ to: 5, within: 60 }] })
    const post = await beginPost(app.port, CLOSING)
    await app.change({ rateLimits: [{ name: 'b', to: 1, within: 60, by: 'body:user.name' }] })
    post.finish()
    expect(await post.ended).toMatchObject([{ status: 100 }, { status: 201 }])
  })

  test('keeps counting under many requests', async () => {
    const limitAll = (limit: number) => ({
      throttle: [{ name: 'all', limit, period: 60 }],
    })
    await app.startOver(limitAll(1000))
    const requests = Array.from({ length: 60 }, () => app.statusOf('GET /users'))
    for (let round = 1; round <= 5; round++) await app.change(limitAll(1000 + round))
    expect(new Set(await Promise.all(requests))).toEqual(new Set([200]))
    expect(app.limitsReport().rules).toMatchObject([{ rule: 'all', counted: 60, passed: 60 }])
  })
})
