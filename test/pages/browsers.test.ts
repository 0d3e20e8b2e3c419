import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openContext, whyNoBrowser } from '../support/open-browser.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

const reason = whyNoBrowser()
if (reason !== undefined) console.log(`skipped in a browser: ${reason}`)

const PAGE = 'https://evil.example'

/** Headers that a page may send without a preflight: the Fetch Standard, "CORS-safelisted request-header". */
const SIMPLE_TYPES = [
  'text/plain',
  'text/plain;charset=utf-8',
  'text/plain; application/json',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
]

test.each([...SIMPLE_TYPES, undefined])(
  'POST /users from a page of another origin as %s is 415 and creates no user',
  async type => {
    const { http, url } = await openTestApp({ env: { CORS_ORIGINS: '*' } })
    const response = await fetch(`${url}/users`, {
      method: 'POST',
      headers: { Origin: PAGE, ...(type && { 'Content-Type': type }) },
      body: Buffer.from(JSON.stringify(newUserBody())),
    })
    expect(response.status).toBe(415)
    expect((await http.get('/users')).body).toEqual([])
  },
)

test('no method can be put in the place of another by a form', async () => {
  const { http } = await openTestApp()
  const { body: user } = await http.post('/users').send(newUserBody()).expect(201)
  await http.post('/users/1?_method=DELETE').set('X-HTTP-Method-Override', 'DELETE').expect(405)
  await http.post('/users/1').set('X-HTTP-Method', 'PUT').send(newUserBody()).expect(405)
  await http.get('/users/1').set('X-Method-Override', 'DELETE').expect(200)
  expect((await http.get('/users/1')).body).toEqual(user)
})

test.each(['POST', 'PUT', 'PATCH', 'DELETE'])(
  'without CORS_ORIGINS a preflight for %s grants nothing',
  async method => {
    const { http } = await openTestApp()
    for (const path of ['/users', '/users/1', '/nowhere']) {
      const { headers } = await http.options(path).set({
        Origin: PAGE,
        'Access-Control-Request-Method': method,
        'Access-Control-Request-Headers': 'content-type',
        'Access-Control-Request-Private-Network': 'true',
      })
      expect(Object.keys(headers).filter(name => name.startsWith('access-control'))).toEqual([])
    }
  },
)

test('no answer sets a cookie, or can be framed, sniffed or stored by a shared cache', async () => {
  const { http } = await openTestApp()
  for (const response of [
    await http.get('/'),
    await http.get('/docs').set('Accept', 'application/json'),
    await http.get('/docs/0123456789abcdef/<script>'),
    await http.get('/users'),
    await http.post('/users').send(newUserBody({ name: '<script>alert(1)</script>' })),
    await http.get('/users/<script>'),
    await http.get('/users?<script>=1'),
    await http.delete('/users/1'),
  ]) {
    const { headers } = response
    expect(headers).not.toHaveProperty('set-cookie')
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(headers['content-security-policy']).toBe("default-src 'none'; frame-ancestors 'none'")
    expect(headers['cache-control']).toMatch(/^(?:private, no-cache|no-store)$/)
    if (response.text.includes('<script>'))
      expect(headers['content-type']).toMatch(/^application\/json;/)
  }
})

test('the pages take scripts only from this service or none, and cannot be framed or send forms', async () => {
  const { http } = await openTestApp()
  for (const [path, scripts] of [
    ['/', undefined],
    ['/docs', "'self'"],
  ] as const) {
    const { headers } = await http.get(path).set('Accept', 'text/html').expect(200)
    expect(headers).not.toHaveProperty('set-cookie')
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(headers['cache-control']).toBe('private, no-cache')
    const policy = headers['content-security-policy'] ?? ''
    const directives = Object.fromEntries(
      policy.split('; ').map(directive => directive.split(/ (.*)/s, 2)),
    )
    expect(directives).toMatchObject({
      'default-src': "'none'",
      'base-uri': "'none'",
      'form-action': "'none'",
      'frame-ancestors': "'none'",
    })
    expect(directives['script-src']).toBe(scripts)
    expect(policy).not.toMatch(/unsafe|https?:|\*/)
  }
})

test('no Host can put anything into the page of GET /', async () => {
  const { port } = await openTestApp()
  for (const host of ["a'onload='alert(1)", "a'$(id)'", 'a%3Cscript%3E', 'a&lt;b', 'a;b', 'a=b']) {
    const lines = ['GET / HTTP/1.1', `Host: ${host}`, 'Accept: text/html', 'Connection: close']
    const [answer] = await sendRaw(port, `${lines.join('\r\n')}\r\n\r\n`).ended
    expect(answer?.status).toBe(200)
    expect(answer?.body).not.toContain(host)
  }
  for (const host of ['<script>', 'a"b', 'a b', 'a/b', 'a`b']) {
    const lines = ['GET / HTTP/1.1', `Host: ${host}`, 'Accept: text/html', 'Connection: close']
    const [answer] = await sendRaw(port, `${lines.join('\r\n')}\r\n\r\n`).ended
    expect([host, answer?.status]).toEqual([host, 400])
  }
})

describe.skipIf(reason !== undefined)('a page whose host name resolves to this service', () => {
  /** What scripts of a page at evil.example get, after its name has begun to resolve to 127.0.0.1. */
  async function actAs(port: number) {
    const context = await openContext([
      '--host-resolver-rules=MAP evil.example 127.0.0.1',
      // Newer browsers keep pages from elsewhere away from this machine. Older ones do not.
      '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests',
    ])
    const page = await context.newPage()
    const own = `http://evil.example:${port}/own-page`
    await page.route(own, route => route.fulfill({ contentType: 'text/html', body: '<p>Hello' }))
    await page.goto(own)
    return page.evaluate(
      async body => {
        const read = await fetch('/users')
        const headers = { 'Content-Type': 'application/json' }
        const write = await fetch('/users', { method: 'POST', headers, body })
        return { statuses: [read.status, write.status], text: await read.text() }
      },
      JSON.stringify(newUserBody({ email: 'eve@evil.example' })),
    )
  }

  test('reads and changes nothing', async () => {
    const { http, port } = await openTestApp({ env: { ALLOWED_HOSTS: '' } })
    await http.post('/users').send(newUserBody()).expect(201)
    const { statuses, text } = await actAs(port)
    expect(statuses).toEqual([421, 421])
    expect(text).not.toContain('@')
    expect((await http.get('/users')).body).toHaveLength(1)
  })

  test('reads and changes everything with ALLOWED_HOSTS=*', async () => {
    const { http, port } = await openTestApp({ env: { ALLOWED_HOSTS: '*' } })
    await http.post('/users').send(newUserBody()).expect(201)
    const { statuses, text } = await actAs(port)
    expect(statuses).toEqual([200, 201])
    expect(text).toContain('@')
    expect((await http.get('/users')).body).toHaveLength(2)
  })
})
