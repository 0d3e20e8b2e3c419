import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'

const RELOADED = 'limits reloaded'
const WRONG = 'limits file is invalid, keeping the previous rules'

/** Resolves once the service has written `count` lines with one of `messages`. */
async function untilLogged(service: SpawnedService, count: number, ...messages: string[]) {
  const { stdout } = service.process
  if (stdout === null) throw new Error('no output')
  for (;;) {
    const complete = service.stdout().slice(0, service.stdout().lastIndexOf('\n') + 1)
    const found = complete
      .split('\n')
      .filter(line => line !== '')
      .map(line => JSON.parse(line) as Record<string, unknown>)
      .filter(({ msg }) => messages.includes(String(msg)))
    if (found.length >= count) return found
    await once(stdout, 'data')
  }
}

async function statusOf(service: { url: string }, headers: Record<string, string> = {}) {
  const answer = await fetch(`${service.url}/users`, { headers })
  await answer.arrayBuffer()
  return answer.status
}

function blocking(agent: string) {
  return { blocklist: [{ name: agent, userAgent: agent }] }
}

function write(path: string, limits: object): void {
  writeFileSync(path, JSON.stringify(limits))
}

test('SIGHUP before the service listens reloads the limits once it can', async () => {
  const cwd = temporaryFolder()
  const path = join(cwd, 'limits.mjs')
  // The first load waits for the signal, which all other listeners of the process then have had.
  writeFileSync(
    path,
    `if (!globalThis.isLoaded) {
      globalThis.isLoaded = true
      const signalled = new Promise(resolve => process.once('SIGHUP', resolve))
      process.kill(process.pid, 'SIGHUP')
      await signalled
    }
    export default {}`,
  )
  const service = await spawnService({ cwd, env: { LIMITS_FILE: path } })
  expect(await untilLogged(service, 1, RELOADED)).toHaveLength(1)
})

describe('SIGHUP', () => {
  async function start(limits?: object) {
    const cwd = temporaryFolder()
    const path = join(cwd, 'limits.json')
    if (limits !== undefined) write(path, limits)
    const env: Record<string, string> = limits === undefined ? {} : { LIMITS_FILE: 'limits.json' }
    return { path, service: await spawnService({ cwd, env }) }
  }

  async function stop(service: SpawnedService) {
    service.process.kill('SIGTERM')
    const { code, stderr } = await service.exited
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  }

  test('puts the rules of the file in force, and keeps the previous rules when it is invalid', async () => {
    const { path, service } = await start(blocking('first'))
    expect(await statusOf(service, { 'User-Agent': 'first' })).toBe(403)

    write(path, blocking('second'))
    service.process.kill('SIGHUP')
    expect(await untilLogged(service, 1, RELOADED)).toMatchObject([
      {
        level: 'info',
        came: ['blocklist "second"'],
        went: ['blocklist "first"'],
        changed: [],
      },
    ])
    expect(await statusOf(service, { 'User-Agent': 'first' })).toBe(200)
    expect(await statusOf(service, { 'User-Agent': 'second' })).toBe(403)

    write(path, { blocklist: [{ name: 'third', userAgnt: 'x' }], throttle: [{ limit: 0 }] })
    service.process.kill('SIGHUP')
    expect(await untilLogged(service, 1, WRONG)).toMatchObject([
      {
        level: 'error',
        mistakes: [
          'line 1: blocklist[0] "third": unknown key "userAgnt", did you mean "userAgent"?',
          'line 1: throttle[0]: limit must be a whole number from 1',
          expect.stringMatching(/^line 1: throttle\[0\]: period is missing/),
        ],
      },
    ])
    expect(await statusOf(service, { 'User-Agent': 'second' })).toBe(403)
    await stop(service)
  })

  test('without LIMITS_FILE logs a line, and the service lives', async () => {
    const { service } = await start()
    service.process.kill('SIGHUP')
    const message = 'reload ignored: LIMITS_FILE is not set'
    expect(await untilLogged(service, 1, message)).toHaveLength(1)
    expect(await statusOf(service)).toBe(200)
    await stop(service)
  })

  test('several times in a row ends with the newest file', async () => {
    const { path, service } = await start(blocking('none'))
    for (let round = 1; round <= 20; round++) {
      write(path, blocking(`agent-${round}`))
      service.process.kill('SIGHUP')
    }
    // Pending signals of one kind are merged: only the last reading is certain.
    await new Promise<void>(resolve => {
      const check = () => {
        if (!service.stdout().includes('"came":["blocklist \\"agent-20\\""]')) return
        service.process.stdout?.off('data', check)
        resolve()
      }
      service.process.stdout?.on('data', check)
      check()
    })
    expect(await statusOf(service, { 'User-Agent': 'agent-20' })).toBe(403)
    expect(await statusOf(service, { 'User-Agent': 'agent-19' })).toBe(200)
    await stop(service)
  })

  test('does not end a service whose module throws a value that is not an error, and works again later', async () => {
    const cwd = temporaryFolder()
    const path = join(cwd, 'limits.mjs')
    writeFileSync(path, `export default ${JSON.stringify(blocking('first'))}`)
    const service = await spawnService({ cwd, env: { LIMITS_FILE: path } })
    writeFileSync(path, 'throw null')
    service.process.kill('SIGHUP')
    const [line] = await untilLogged(service, 1, WRONG, 'crashed')
    expect(line).toMatchObject({ msg: WRONG, mistakes: [expect.any(String)] })
    expect(await statusOf(service, { 'User-Agent': 'first' })).toBe(403)
    writeFileSync(path, `export default ${JSON.stringify(blocking('second'))}`)
    service.process.kill('SIGHUP')
    await untilLogged(service, 1, RELOADED)
    expect(await statusOf(service, { 'User-Agent': 'second' })).toBe(403)
    await stop(service)
  })

  test('answers the requests that are running', async () => {
    const { path, service } = await start({ rateLimits: [{ to: 5, within: 60 }] })
    const body = '{"user":{"name":"Ann","email":"ann@example.com"}}'
    const half = sendRaw(
      service.port,
      `POST /users HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n` +
        `Content-Length: ${body.length}\r\nExpect: 100-continue\r\n\r\n`,
    )
    // The service asks for the body once it has the head.
    await once(half.socket, 'data')
    write(path, { rateLimits: [{ name: 'other', to: 1, within: 60, by: 'body:user.email' }] })
    service.process.kill('SIGHUP')
    await untilLogged(service, 1, RELOADED)
    half.socket.write(body)
    const answers = await half.answers(2)
    expect(answers.map(({ status }) => status)).toEqual([100, 201])
    half.socket.destroy()
    await stop(service)
  })

  test('keeps counting under many requests', async () => {
    const { path, service } = await start({ throttle: [{ name: 'all', limit: 1000, period: 60 }] })
    const requests = Array.from({ length: 60 }, () => statusOf(service))
    for (let round = 0; round < 5; round++) {
      write(path, { throttle: [{ name: 'all', limit: 1000 + round, period: 60 }] })
      service.process.kill('SIGHUP')
    }
    expect(new Set(await Promise.all(requests))).toEqual(new Set([200]))
    await untilLogged(service, 1, RELOADED)
    await stop(service)
  })
})

describe('reloadLimits', () => {
  const lastLine = ({ logLines }: TestApp) =>
    logLines.findLast(({ msg }) => msg === RELOADED || msg === WRONG)

  async function statusesOf({ http }: TestApp, count: number) {
    const statuses: number[] = []
    for (let index = 0; index < count; index++) statuses.push((await http.get('/users')).status)
    return statuses
  }

  test.each([
    { kind: 'rateLimits', rule: (to: number) => ({ to, within: 60 }), over: 429 },
    { kind: 'throttle', rule: (limit: number) => ({ limit, period: 60 }), over: 429 },
    {
      kind: 'bans',
      rule: (maxretry: number) => ({ maxretry: maxretry + 1, findtime: 60, bantime: 60 }),
      over: 403,
    },
  ])('keeps the counters of $kind by kind and name', async ({ kind, rule, over }) => {
    const { now } = createFakeClock()
    const app = await openTestApp({ limits: { [kind]: [{ name: 'a', ...rule(3) }] }, now })
    expect(await statusesOf(app, 2)).toEqual([200, 200])
    // Another place in the file and another limit, but the same rule by its name.
    write(app.limitsPath, {
      [kind]: [
        { name: 'new', ...rule(90) },
        { name: 'a', ...rule(4) },
      ],
    })
    await app.reloadLimits()
    expect(await statusesOf(app, 2)).toEqual([200, 200])
    write(app.limitsPath, { [kind]: [{ name: 'b', ...rule(4) }] })
    await app.reloadLimits()
    expect(await statusesOf(app, 4)).toEqual([200, 200, 200, 200])
    await app.reloadLimits()
    // A ban rule bans with the last allowed strike, and refuses from the next request on.
    expect(await statusesOf(app, 2)).toEqual(kind === 'bans' ? [200, over] : [over, over])
  })

  test('does not mix the counters of two kinds', async () => {
    const { now } = createFakeClock()
    const app = await openTestApp({
      limits: { throttle: [{ name: 'a', limit: 2, period: 60 }] },
      now,
    })
    expect(await statusesOf(app, 2)).toEqual([200, 200])
    write(app.limitsPath, { rateLimits: [{ name: 'a', to: 2, within: 60 }] })
    await app.reloadLimits()
    expect(await statusesOf(app, 3)).toEqual([200, 200, 429])
  })

  test('keeps bans; those of a removed rule have no effect until it comes back', async () => {
    const clock = createFakeClock()
    const limits = {
      bans: [{ name: 'once', path: '/users', maxretry: 1, findtime: 60, bantime: 600 }],
    }
    const app = await openTestApp({ limits, now: clock.now })
    expect(await statusesOf(app, 2)).toEqual([200, 403])
    write(app.limitsPath, { ...limits, track: [{ name: 'more' }] })
    await app.reloadLimits()
    expect(await statusesOf(app, 1)).toEqual([403])
    write(app.limitsPath, {})
    await app.reloadLimits()
    expect(await statusesOf(app, 1)).toEqual([200])
    clock.advance(100_000)
    write(app.limitsPath, limits)
    await app.reloadLimits()
    const { status, headers } = await app.http.get('/users')
    expect({ status, retryAfter: headers['retry-after'] }).toEqual({
      status: 403,
      retryAfter: '500',
    })
  })

  test.each([
    { why: 'is gone', change: (path: string) => rmSync(path), mistake: /ENOENT/ },
    { why: 'is empty', change: (path: string) => writeFileSync(path, ''), mistake: /JSON/ },
    { why: 'is no JSON', change: (path: string) => writeFileSync(path, '{"a":'), mistake: /JSON/ },
    { why: 'is no object', change: (path: string) => writeFileSync(path, '[]'), mistake: /object/ },
    {
      why: 'has a rule that is null',
      change: (path: string) => write(path, { rateLimits: [null], track: [null] }),
      mistake: /^line 1: track\[0\]: must be an object/,
    },
  ])('keeps the previous rules when the file $why', async ({ change, mistake }) => {
    const app = await openTestApp({ limits: { rateLimits: [{ to: 1, within: 60 }] } })
    expect(await statusesOf(app, 1)).toEqual([200])
    change(app.limitsPath)
    await app.reloadLimits()
    const lines = app.logLines.filter(({ msg }) => msg === WRONG)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatchObject({ level: 50, mistakes: expect.any(Array) })
    expect([lines[0]?.mistakes].flat()[0]).toMatch(mistake)
    expect(await statusesOf(app, 1)).toEqual([429])
    write(app.limitsPath, {})
    await app.reloadLimits()
    expect(await statusesOf(app, 2)).toEqual([200, 200])
  })

  test('warns about rules that are surely a mistake, as the start does', async () => {
    const warnings = async ({ logLines }: TestApp) => {
      return logLines
        .filter(({ msg }) => msg === 'limits may not work as intended')
        .map(({ level, warning }) => [level, warning])
    }
    const app = await openTestApp({ limits: { blocklist: [{ name: 'q', path: '/users?x=1' }] } })
    const query = 'blocklist "q" has the path "/users?x=1": a path has no query, use the key query'
    expect(await warnings(app)).toEqual([[40, query]])
    write(app.limitsPath, { track: [{ name: 'space', header: { 'a b': '*' } }] })
    await app.reloadLimits()
    const space = 'track "space" matches no request: no header can have the name "a b"'
    expect(await warnings(app)).toEqual([
      [40, query],
      [40, space],
    ])
    write(app.limitsPath, { track: [{ name: 'space', header: { 'a-b': '*' } }] })
    await app.reloadLimits()
    expect(await warnings(app)).toHaveLength(2)
  })

  test('logs which rules came, went and changed, by kind and name', async () => {
    const many = Array.from({ length: 150 }, (_, index) => `203.0.113.${index}`)
    const before = {
      safelist: [{ name: 'same', ip: '10.0.0.1' }],
      blocklist: [
        { name: 'changed', header: { 'X-A': ['1', { regex: 'x' }] } },
        { name: 'moved', path: '/a' },
        { name: 'many', ip: many },
      ],
      throttle: [
        { limit: 1000, period: 60 },
        { name: 'went', limit: 1000, period: 60 },
      ],
    }
    const app = await openTestApp({ limits: before })
    await app.reloadLimits()
    expect(lastLine(app)).toMatchObject({ msg: RELOADED, came: [], went: [], changed: [] })
    write(app.limitsPath, {
      safelist: before.safelist,
      blocklist: [
        { path: '/a', name: 'moved' },
        { name: 'changed', header: { 'X-A': ['1', { regex: 'y' }] } },
        { name: 'many', ip: [...many.slice(0, -1), '203.0.113.250'] },
      ],
      throttle: [{ limit: 999, period: 60 }],
      track: [{ name: 'went' }],
    })
    await app.reloadLimits()
    expect(lastLine(app)).toMatchObject({
      msg: RELOADED,
      came: ['track "went"'],
      went: ['throttle "went"'],
      changed: ['blocklist "changed"', 'blocklist "many"', 'throttle "throttle[0]"'],
    })
  })

  test('reads a module again, and logs which of its functions changed', async () => {
    const path = join(temporaryFolder(), 'limits.mjs')
    const module = (agent: string, by: string) => `export default {
      blocklist: [{ name: 'agent', match: request => request.get('user-agent') === '${agent}' }],
      throttle: [
        { name: 'same', limit: 1000, period: 60, by: request => request.ip },
        { name: 'list', limit: 1000, period: 60, by: ['host', request => ${by}] },
      ],
    }`
    writeFileSync(path, module('first', '1'))
    const app = await openTestApp({ env: { LIMITS_FILE: path } })
    const status = async (agent: string) =>
      (await app.http.get('/users').set('User-Agent', agent)).status
    expect([await status('first'), await status('second')]).toEqual([403, 200])
    for (const agent of ['second', 'third', 'fourth']) {
      writeFileSync(path, module(agent, '1'))
      await app.reloadLimits()
      expect([await status('first'), await status(agent)]).toEqual([200, 403])
    }
    writeFileSync(path, module('fifth', '2'))
    await app.reloadLimits()
    expect(lastLine(app)).toMatchObject({
      msg: RELOADED,
      came: [],
      went: [],
      changed: ['blocklist "agent"', 'throttle "list"'],
    })
  })

  test('keeps the rules of a module that has become invalid', async () => {
    const path = join(temporaryFolder(), 'limits.mjs')
    writeFileSync(path, `export default ${JSON.stringify(blocking('first'))}`)
    const app = await openTestApp({ env: { LIMITS_FILE: path } })
    const blocked = async () => (await app.http.get('/users').set('User-Agent', 'first')).status
    for (const text of ['throw new Error("boom")', 'export default', 'export const a = 1']) {
      writeFileSync(path, text)
      await app.reloadLimits()
      expect(lastLine(app)).toMatchObject({ level: 50, msg: WRONG })
      expect(await blocked()).toBe(403)
    }
  })

  test('with CACHE_STORE=none changes the rules that do not count', async () => {
    const app = await openTestApp({
      limits: { rateLimits: [{ to: 1, within: 60 }] },
      env: { CACHE_STORE: 'none' },
    })
    expect(await statusesOf(app, 2)).toEqual([200, 200])
    write(app.limitsPath, { blocklist: [{ path: '/users' }] })
    await app.reloadLimits()
    expect(await statusesOf(app, 1)).toEqual([403])
  })

  test('does not disturb a request whose body is still arriving', async () => {
    const app = await openTestApp({ limits: { rateLimits: [{ to: 5, within: 60 }] } })
    const body = '{"user":{"name":"Ann","email":"ann@example.com"}}'
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
    write(app.limitsPath, { rateLimits: [{ name: 'b', to: 1, within: 60, by: 'body:user.name' }] })
    await app.reloadLimits()
    const answered = once(request, 'response')
    request.end(body)
    const [response] = await answered
    expect(response.statusCode).toBe(201)
    response.resume()
  })
})
