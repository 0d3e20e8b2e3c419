import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'

function openWithModule(rules: string, env: Readonly<Record<string, string>> = {}) {
  const path = join(temporaryFolder(), 'limits.mjs')
  writeFileSync(path, `export default ${rules}`)
  return openTestApp({ env: { LIMITS_FILE: path, ...env } })
}

test.each([
  ['throws', '() => { throw new Error("boom") }'],
  ['hands the request on', '(request, response, next) => next()'],
  ['hands the request on with null', '(request, response, next) => next(null)'],
  ['gives a promise that rejects', 'async () => { throw new Error("boom") }'],
])('a throttle whose with %s refuses nothing, and the next rules are asked', async (_how, code) => {
  const { http, logLines } = await openWithModule(`{
    throttle: [
      { name: 'first', path: '/a', limit: 1, period: 60, with: ${code} },
      { name: 'second', path: '/a', limit: 2, period: 60 },
    ],
    track: [{ name: 'seen', path: '/a' }],
  }`)
  const statuses: number[] = []
  for (let count = 0; count < 3; count++) statuses.push((await http.get('/a')).status)
  expect(statuses).toEqual([404, 404, 429])
  const passed = logLines.filter(({ msg, status }) => msg === 'request' && status === 404)
  expect(passed).toHaveLength(2)
  for (const line of passed) expect(line).not.toHaveProperty('rule')
  expect(logLines.filter(({ msg }) => msg === 'request tracked')).toHaveLength(2)
})

test('the answer to a request that a function lets pass has no header of the denial', async () => {
  const { http } = await openWithModule(`{
    throttle: [{ limit: 1, period: 60, with: (request, response, next) => next() }],
  }`)
  await http.get('/users')
  const { status, headers } = await http.get('/users')
  expect(status).toBe(200)
  expect(headers.vary).toBe('Accept')
  for (const name of ['ratelimit', 'ratelimit-policy', 'retry-after']) {
    expect(headers).not.toHaveProperty(name)
  }
})

test.each(['throttle', 'rateLimits'])(
  'a with of %s that writes and then throws ends the connection, and no other request',
  async kind => {
    const limit = kind === 'throttle' ? 'limit: 1, period: 60' : 'to: 1, within: 60'
    const { http, url, logLines } = await openWithModule(`{
      ${kind}: [{ ${limit}, with: (request, response) => {
        response.status(429).write('half')
        throw new Error('boom')
      } }],
    }`)
    await http.get('/users')
    await expect(fetch(`${url}/users`).then(answer => answer.text())).rejects.toThrow()
    const failed = logLines.filter(({ msg }) => msg === 'rule function failed, request allowed')
    expect(failed).toHaveLength(1)
    expect((await http.get('/livez')).status).toBe(200)
  },
)

test.each(['throttle', 'rateLimits'])(
  'a with of %s that calls next after it began to answer ends the connection, and no other request',
  async kind => {
    const limit = kind === 'throttle' ? 'limit: 1, period: 60' : 'to: 1, within: 60'
    for (const error of ['', "new Error('boom')"]) {
      const { http, url } = await openWithModule(`{
        ${kind}: [{ ${limit}, with: (request, response, next) => {
          response.status(429).write('half')
          setTimeout(() => next(${error}), 1)
        } }],
      }`)
      await http.get('/users')
      await expect(fetch(`${url}/users`).then(answer => answer.text())).rejects.toThrow()
      expect((await http.get('/livez')).status).toBe(200)
    }
  },
)

test.each(['throttle', 'rateLimits'])(
  'a with of %s that throws after it has answered does not change the answer',
  async kind => {
    const limit = kind === 'throttle' ? 'limit: 1, period: 60' : 'to: 1, within: 60'
    const { http } = await openWithModule(`{
      ${kind}: [{ ${limit}, with: (request, response) => {
        response.status(429).json({ whole: true })
        throw new Error('boom')
      } }],
    }`)
    await http.get('/users')
    expect(await http.get('/users')).toMatchObject({ status: 429, body: { whole: true } })
  },
)

test.each([
  ['throttle', 'route'],
  ['throttle', 'router'],
  ['rateLimits', 'route'],
  ['rateLimits', 'router'],
])('a with of %s that calls next(%j) lets the request pass', async (kind, word) => {
  const limit = kind === 'throttle' ? 'limit: 1, period: 60' : 'to: 1, within: 60'
  const { http } = await openWithModule(`{
    ${kind}: [{ ${limit}, with: (request, response, next) => next('${word}') }],
  }`)
  await http.get('/users')
  expect(await http.get('/users')).toMatchObject({ status: 200, body: [] })
})

test.each([
  ['/users?k=a', ['a']],
  ['/users?k=a&k=b%20c&other=1', ['a', 'b c']],
  ['/users?K=a', ['undefined']],
  ['/users?k', ['']],
  ['/users?k=%zz&__proto__=x', ['%zz']],
])('a function of a rule finds the query of %s in request.query', async (path, values) => {
  const { http } = await openWithModule(`{
    throttle: [{ limit: 1, period: 60, by: () => 'all', with: (request, response) => {
      response.status(429).json([request.query.k].flat().map(String))
    } }],
  }`)
  await http.get(path)
  expect((await http.get(path)).body).toEqual(values)
})

test('a throttle by request.query counts each value separately', async () => {
  const { http } = await openWithModule(`{
    throttle: [{ limit: 1, period: 60, by: request => request.query.k }],
  }`)
  const statuses: number[] = []
  for (const path of ['/a?k=1', '/a?k=1', '/a?k=2', '/a', '/a']) {
    statuses.push((await http.get(path)).status)
  }
  expect(statuses).toEqual([404, 429, 404, 404, 404])
})

test('a ban by a key with half of a character survives a restart', async () => {
  const rules = `{
    bans: [{ name: 'half \\ud800', path: '/a', by: () => 'x\\udc00', maxretry: 1, findtime: 60, bantime: 60 }],
  }`
  const first = await openWithModule(rules)
  await first.http.get('/a')
  expect((await first.http.get('/users')).status).toBe(403)
  await first.stop()
  const second = await openWithModule(rules, { DATABASE_URL: first.databaseUrl })
  expect((await second.http.get('/users')).status).toBe(403)
})
