import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type Reloads, watchReloads } from '../../src/cli/serve/signals.ts'
import { shareAppWithRules } from '../support/app-with-rules.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { until } from '../support/until.ts'

const RELOADED = 'limits reloaded'
const WRONG = 'limits file is invalid, keeping the previous rules'

const { app, clock, changeLimits, useLimits } = shareAppWithRules()

const linesOf = (message: string, { logLines }: Pick<TestApp, 'logLines'> = app) =>
  logLines.filter(({ msg }) => msg === message)

async function statusesOf(count: number, http = app.http): Promise<number[]> {
  const statuses: number[] = []
  for (let index = 0; index < count; index++) statuses.push((await http.get('/users')).status)
  return statuses
}

async function statusOf(agent: string): Promise<number> {
  return (await app.http.get('/users').set('User-Agent', agent)).status
}

function blocking(agent: string) {
  return { blocklist: [{ name: agent, userAgent: agent }] }
}

describe('SIGHUP', () => {
  function watch(): Reloads {
    const reloads = watchReloads()
    onTestFinished(reloads.end)
    return reloads
  }

  test('before the service can reload its limits reloads them once it can', async () => {
    await useLimits({})
    const { begin } = watch()
    process.emit('SIGHUP', 'SIGHUP')
    begin(app.reloadLimits)
    await until(() => linesOf(RELOADED).length === 1)
  })

  test('several times in a row ends with the newest file', async () => {
    await useLimits(blocking('none'))
    watch().begin(app.reloadLimits)
    for (let round = 1; round <= 20; round++) {
      writeFileSync(app.limitsPath, `export default ${JSON.stringify(blocking(`agent-${round}`))}`)
      process.emit('SIGHUP', 'SIGHUP')
    }
    await until(() => linesOf(RELOADED).length === 20)
    expect([await statusOf('agent-20'), await statusOf('agent-19')]).toEqual([403, 200])
  })

  test('reloads after a reload that failed', async () => {
    const results = [Promise.reject(new Error('no')), Promise.resolve({ outcome: 'failed' })]
    const { begin, request } = watch()
    const [first, second] = [request(), request()]
    begin(() => results.shift() as ReturnType<typeof request>)
    await expect(first).rejects.toThrow('no')
    expect(await second).toEqual({ outcome: 'failed' })
  })
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
    await useLimits({ [kind]: [{ name: 'a', ...rule(3) }] })
    expect(await statusesOf(2)).toEqual([200, 200])
    // Another place in the file and another limit, but the same rule by its name.
    await changeLimits({
      [kind]: [
        { name: 'new', ...rule(90) },
        { name: 'a', ...rule(4) },
      ],
    })
    expect(await statusesOf(2)).toEqual([200, 200])
    await changeLimits({ [kind]: [{ name: 'b', ...rule(4) }] })
    expect(await statusesOf(4)).toEqual([200, 200, 200, 200])
    await app.reloadLimits()
    // A ban rule bans with the last allowed strike, and refuses from the next request on.
    expect(await statusesOf(2)).toEqual(kind === 'bans' ? [200, over] : [over, over])
  })

  test('does not mix the counters of two kinds', async () => {
    await useLimits({ throttle: [{ name: 'a', limit: 2, period: 60 }] })
    expect(await statusesOf(2)).toEqual([200, 200])
    await changeLimits({ rateLimits: [{ name: 'a', to: 2, within: 60 }] })
    expect(await statusesOf(3)).toEqual([200, 200, 429])
  })

  test('keeps bans; those of a removed rule have no effect until it comes back', async () => {
    const limits = {
      bans: [{ name: 'once', path: '/users', maxretry: 1, findtime: 60, bantime: 600 }],
    }
    await useLimits(limits)
    expect(await statusesOf(2)).toEqual([200, 403])
    await changeLimits({ ...limits, track: [{ name: 'more' }] })
    expect(await statusesOf(1)).toEqual([403])
    await changeLimits({})
    expect(await statusesOf(1)).toEqual([200])
    clock.advance(100_000)
    await changeLimits(limits)
    const { status, headers } = await app.http.get('/users')
    expect([status, headers['retry-after']]).toEqual([403, '500'])
  })

  test('of a file that is wrong keeps the previous rules and logs each mistake', async () => {
    await useLimits(blocking('first'))
    for (const [text, mistakes] of [
      ['', [/must hold an object/]],
      ['export default []', [/must hold an object/]],
      ['export default', [/cannot be read/]],
      ['throw new Error("boom")', [/boom/]],
      ['throw null', [/cannot be read \(null\)/]],
      [
        'export default { rateLimits: [null], blocklist: [{ userAgnt: "x" }] }',
        [/^blocklist\[0\]: unknown key "userAgnt", did/, /^rateLimits\[0\]: must be an object$/],
      ],
      [undefined, [/cannot be read \(ERR_MODULE_NOT_FOUND/]],
    ] as const) {
      app.logLines.length = 0
      if (text === undefined) rmSync(app.limitsPath)
      else writeFileSync(app.limitsPath, text)
      await app.reloadLimits()
      const expected = mistakes.map(mistake => expect.stringMatching(mistake))
      expect(linesOf(WRONG)).toEqual([expect.objectContaining({ level: 50, mistakes: expected })])
      expect(await statusOf('first')).toBe(403)
    }
    await changeLimits(blocking('second'))
    expect([await statusOf('first'), await statusOf('second')]).toEqual([200, 403])
  })

  test('without LIMITS_FILE logs a line, and the service lives', async () => {
    const limitless = await openTestApp()
    await limitless.reloadLimits()
    expect(linesOf('reload ignored: LIMITS_FILE is not set', limitless)).toHaveLength(1)
    expect(await statusesOf(1, limitless.http)).toEqual([200])
  })

  test('warns about rules that are surely a mistake, as the start does', async () => {
    const limits = `{ blocklist: [{ name: 'q', path: '/users?x=1' }] }`
    const warned = await openTestApp({ limits })
    const warnings = () =>
      linesOf('limits may not work as intended', warned).map(({ level, warning }) => [
        level,
        warning,
      ])
    const query = 'blocklist "q" has the path "/users?x=1": a path has no query, use the key query'
    const space = 'track "space" matches no request: no header can have the name "a b"'
    expect(warnings()).toEqual([[40, query]])
    for (const name of ['a b', 'a-b']) {
      const track = `{ track: [{ name: 'space', header: { '${name}': '*' } }] }`
      writeFileSync(warned.limitsPath, `export default ${track}`)
      await warned.reloadLimits()
      expect(warnings()).toEqual([
        [40, query],
        [40, space],
      ])
    }
  })

  test('logs which rules came, went and changed, by kind and name', async () => {
    const many = Array.from({ length: 150 }, (_, index) => `203.0.113.${index}`)
    const safelist = [{ name: 'same', ip: '10.0.0.1' }]
    await useLimits({
      safelist,
      blocklist: [
        { name: 'changed', header: { 'X-A': ['1', { regex: 'x' }] } },
        { name: 'moved', path: '/a' },
        { name: 'many', ip: many },
      ],
      throttle: [
        { limit: 1000, period: 60 },
        { name: 'went', limit: 1000, period: 60 },
      ],
    })
    await app.reloadLimits()
    expect(linesOf(RELOADED).at(-1)).toMatchObject({ came: [], went: [], changed: [] })
    await changeLimits({
      safelist,
      blocklist: [
        { path: '/a', name: 'moved' },
        { name: 'changed', header: { 'X-A': ['1', { regex: 'y' }] } },
        { name: 'many', ip: [...many.slice(0, -1), '203.0.113.250'] },
      ],
      throttle: [{ limit: 999, period: 60 }],
      track: [{ name: 'went' }],
    })
    expect(linesOf(RELOADED).at(-1)).toMatchObject({
      level: 30,
      came: ['track "went"'],
      went: ['throttle "went"'],
      changed: ['blocklist "changed"', 'blocklist "many"', 'throttle "throttle[0]"'],
    })
  })

  test('reads a module again, and logs which of its functions changed', async () => {
    const module = (agent: string, by: string) => `{
      blocklist: [{ name: 'agent', match: request => request.get('user-agent') === '${agent}' }],
      throttle: [
        { name: 'same', limit: 1000, period: 60, by: request => request.ip },
        { name: 'list', limit: 1000, period: 60, by: ['host', request => ${by}] },
      ],
    }`
    await useLimits(module('first', '1'))
    expect([await statusOf('first'), await statusOf('second')]).toEqual([403, 200])
    for (const agent of ['second', 'third', 'fourth']) {
      await changeLimits(module(agent, '1'))
      expect([await statusOf('first'), await statusOf(agent)]).toEqual([200, 403])
    }
    await changeLimits(module('fifth', '2'))
    const changed = ['blocklist "agent"', 'throttle "list"']
    expect(linesOf(RELOADED).at(-1)).toMatchObject({ came: [], went: [], changed })
  })

  test('with CACHE_STORE=none changes the rules that do not count', async () => {
    const { http, limitsPath, reloadLimits } = await openTestApp({
      limits: { rateLimits: [{ to: 1, within: 60 }] },
      env: { CACHE_STORE: 'none' },
    })
    expect(await statusesOf(2, http)).toEqual([200, 200])
    writeFileSync(limitsPath, JSON.stringify({ blocklist: [{ path: '/users' }] }))
    await reloadLimits()
    expect(await statusesOf(1, http)).toEqual([403])
  })

  test('does not disturb a request whose body is still arriving', async () => {
    await useLimits({ rateLimits: [{ to: 5, within: 60 }] })
    const body = JSON.stringify(newUserBody())
    const request = httpRequest(`${app.url}/users`, {
      method: 'POST',
      headers: {
        'Content-Type': 'application/json',
        'Content-Length': body.length,
        Expect: '100-continue',
      },
    })
    request.flushHeaders()
    await once(request, 'continue')
    await changeLimits({ rateLimits: [{ name: 'b', to: 1, within: 60, by: 'body:user.name' }] })
    const answered = once(request, 'response')
    request.end(body)
    const [response] = await answered
    expect(response.statusCode).toBe(201)
    response.resume()
  })

  test('keeps counting under many requests', async () => {
    const limitAll = (limit: number) => ({ throttle: [{ name: 'all', limit, period: 60 }] })
    await useLimits(limitAll(1000))
    const requests = Array.from({ length: 60 }, () => statusesOf(1))
    for (let round = 1; round <= 5; round++) await changeLimits(limitAll(1000 + round))
    expect(new Set((await Promise.all(requests)).flat())).toEqual(new Set([200]))
    expect(app.limitsReport().rules).toMatchObject([{ rule: 'all', counted: 60, passed: 60 }])
  })
})
