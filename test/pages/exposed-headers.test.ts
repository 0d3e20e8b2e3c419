import { createServer } from 'node:http'
import { describe, expect, test } from 'vitest'
import { responseHeadersIn } from '../support/described-interface.ts'
import { listen } from '../support/listen.ts'
import { openContext } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { canOpenPages } from '../support/programs.ts'

const BODY = JSON.stringify({ user: { name: 'Ann', email: 'ann@example.com' } })

const KEYED = { 'Content-Type': 'application/json', 'Idempotency-Key': 'one' }

/** Requests that together are answered with every header that there is. The last one exceeds the limit. */
const REQUESTS = [
  ['POST', '/users', { ...KEYED, Prefer: 'handling=strict' }, BODY],
  ['POST', '/users', KEYED, BODY],
  ['GET', '/users?page=2&per_page=1&count=true', {}],
  ['GET', '/users', { Accept: 'text/csv' }],
  ['PATCH', '/users/1', { 'Content-Type': 'text/plain' }, 'x'],
  ['PATCH', '/users/1', { ...KEYED, 'Content-Encoding': 'zstd' }, BODY],
  ['PUT', '/users', {}],
  ['GET', '/users/1', { Authorization: '' }],
  ['POST', '/users', KEYED, BODY],
] as const

describe.runIf(canOpenPages)('CORS', () => {
  test('a page of another origin reads every header that the document names', async () => {
    const server = createServer((_request, response) => response.end('<!doctype html>'))
    const origin = `http://127.0.0.1:${await listen(server)}`
    const { url, http, bearers } = await openTestApp({
      env: { CORS_ORIGINS: origin },
      keys: [{ name: 'page' }],
      limits: { rateLimits: [{ name: 'few', to: 2, within: '1 hour', only: ['create'] }] },
    })
    const page = await (await openContext()).newPage()
    await page.goto(origin)
    const answers = await page.evaluate<[string, string[]][]>(`(async () => {
      const answers = []
      for (const [method, path, headers, body] of ${JSON.stringify(REQUESTS)}) {
        const all = { Authorization: '${bearers[0]}', ...headers }
        const response = await fetch('${url}' + path, { method, headers: all, body })
        answers.push([response.status, [...response.headers.keys()]])
      }
      return answers
    })()`)
    const statuses = answers.map(([status]) => status)
    expect(statuses).toEqual([201, 201, 200, 200, 415, 415, 405, 401, 429])
    const named = responseHeadersIn((await http.get('/openapi.json')).body)
    const read = new Set(answers.flatMap(([, names]) => names))
    expect(named.length).toBeGreaterThan(12)
    expect(named.filter(name => !read.has(name.toLowerCase()))).toEqual([])
  })
})
