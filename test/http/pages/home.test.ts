import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { executeSql } from '../../support/sql.ts'

const PROJECT = new URL('../../../', import.meta.url)

const { version } = JSON.parse(readFileSync(new URL('package.json', PROJECT), 'utf8'))

const PATHS = ['/docs', '/openapi.json', '/users', '/livez', '/readyz']

const OF_CHROME =
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8'

const OF_FIREFOX = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

test.each([
  OF_CHROME,
  OF_FIREFOX,
  'text/html',
  'TEXT/HTML',
  'text/*',
  'application/json;q=0.5, text/html',
  'application/problem+json, text/html',
])('GET / answers a page to Accept: %s', async accept => {
  const { http } = await openTestApp()
  const { headers, text } = await http.get('/').set('Accept', accept).expect(200)
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers.vary).toContain('Accept')
  expect(headers['x-content-type-options']).toBe('nosniff')
  expect(text).toMatch(/^<!doctype html>/i)
  for (const path of PATHS) expect(text).toContain(`href="${path}"`)
  expect(text).toContain(`version ${version}`)
})

test.each([
  undefined,
  '*/*',
  'application/json',
  'application/*',
  'application/problem+json',
  'text/html, application/json',
  'text/html;q=0.5, application/json',
  'text/html;q=0, */*',
  'malformed',
])('GET / answers JSON to Accept: %s', async accept => {
  const { http } = await openTestApp()
  const request = http.get('/')
  const { headers, body } = await (accept === undefined
    ? request
    : request.set('Accept', accept)
  ).expect(200)
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(headers.vary).toContain('Accept')
  expect(body).toEqual({
    message: expect.stringMatching(/^User Records Service: /),
    version,
    status: 'ok',
    docs: '/docs',
    openapi: '/openapi.json',
    users: '/users',
    health: '/livez',
    readiness: '/readyz',
  })
})

test('every path that GET / names exists', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/').expect(200)
  const paths = Object.values<string>(body).filter(value => value.startsWith('/'))
  expect(paths.length).toBeGreaterThan(2)
  for (const path of paths) await http.get(path).expect(200)
})

test('GET / answers 200 also without a database, and says so in its JSON', async () => {
  const { http, databaseUrl } = await openTestApp()
  const page = () => http.get('/').set('Accept', 'text/html').expect(200)
  const { text } = await page()
  await executeSql(databaseUrl, 'ALTER TABLE users RENAME TO elsewhere')
  expect((await http.get('/').expect(200)).body.status).toBe('unavailable')
  expect((await page()).text).toBe(text)
  await executeSql(databaseUrl, 'ALTER TABLE elsewhere RENAME TO users')
  expect((await http.get('/').expect(200)).body.status).toBe('ok')
})

test('the page of GET / has no script, and only the style that its policy names', async () => {
  const { http } = await openTestApp()
  const { headers, text } = await http.get('/').set('Accept', 'text/html').expect(200)
  const [, style = ''] = /<style>([\s\S]*)<\/style>/.exec(text) ?? []
  const hash = createHash('sha256').update(style).digest('base64')
  expect(headers['content-security-policy']).toBe(
    `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; ` +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  )
  expect(text).not.toMatch(/<script|\sstyle=|\son\w+=|https?:\/\/(?!127\.0\.0\.1)/i)
})

test('the page of GET / shows the commands of the README, with its own address', async () => {
  const { http, url } = await openTestApp()
  const readme = readFileSync(new URL('README.md', PROJECT), 'utf8')
  const commands = await commandsOf(http, {})
  const own = commands.filter(
    command => command.includes(` ${url}/`) || command.includes(`'${url}/`),
  )
  expect(own).toEqual(commands)
  expect(commands.length).toBeGreaterThan(6)
  for (const command of commands) {
    const inReadme = command.replaceAll(url, 'http://127.0.0.1:3000')
    expect(readme).toContain(`\`\`\`sh\n${inReadme}\n\`\`\``)
  }
})

test.each([
  'users.example.com',
  'users.example.com:8443',
  'LOCALHOST:3000',
  'user_records',
  '192.0.2.7:3000',
  '[::1]',
  '[2001:db8::1]:3000',
])('the page of GET / calls the service %s if its client does', async host => {
  const { http } = await openTestApp()
  const commands = await commandsOf(http, { Host: host })
  expect(commands[1]).toBe(`curl http://${host}/users`)
})

test.each([
  '',
  '-o',
  '-o.example',
  '.',
  "'",
  "a';reboot;'",
  'a;reboot',
  '$(reboot)',
  'a&b',
  'a*',
  'a%22%3E',
  'a:',
  'a:123456',
  '[::1]:',
])('the page of GET / shows the address of the README to a client whose Host is %j', async host => {
  const { port } = await openTestApp()
  const request = ['GET / HTTP/1.1', `Host: ${host}`, 'Accept: text/html', 'Connection: close']
  const [answer] = await sendRaw(port, `${request.join('\r\n')}\r\n\r\n`).ended
  expect(answer?.status).toBe(200)
  expect(answer?.body).toContain('<code>curl http://127.0.0.1:3000/users</code>')
  expect(answer?.body).not.toContain(`://${host}/`)
})

test('the page of GET / shows the address of the README to a client of HTTP/1.0 without a Host', async () => {
  const { port } = await openTestApp()
  const [answer] = await sendRaw(port, 'GET / HTTP/1.0\r\nAccept: text/html\r\n\r\n').ended
  expect(answer?.body).toContain('<code>curl http://127.0.0.1:3000/users</code>')
})

const FORWARDED = { 'X-Forwarded-Host': 'users.example.com', 'X-Forwarded-Proto': 'https' }

test('the page of GET / takes its address from a trusted proxy, and from no other', async () => {
  const { http, url } = await openTestApp()
  expect((await commandsOf(http, FORWARDED))[1]).toBe(`curl ${url}/users`)
  const behind = await openTestApp({ env: { TRUST_PROXY: 'loopback' } })
  expect((await commandsOf(behind.http, FORWARDED))[1]).toBe('curl https://users.example.com/users')
  const odd = { 'X-Forwarded-Host': '"><script>', 'X-Forwarded-Proto': 'javascript' }
  expect((await commandsOf(behind.http, odd))[1]).toBe('curl http://127.0.0.1:3000/users')
})

test('GET / answers 406 to a client that accepts neither HTML nor JSON', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/').set('Accept', 'image/png').expect(406)
  expect(body).toMatchObject({ resource: 'Request', code: 406, status: false })
})

test.each([
  ['/', 'application/json'],
  ['/', OF_CHROME],
  ['/users', 'application/json'],
  ['/users/1', 'application/json'],
  ['/users/999', 'application/json'],
  ['/users/999', 'application/problem+json'],
  ['/users/1', 'text/html'],
  ['/nowhere', 'application/json'],
  ['/users/%zz', 'application/json'],
])('HEAD %s has the headers of GET and no body, with Accept: %s', async (path, accept) => {
  const { port, http } = await openTestApp()
  await http
    .post('/users')
    .send(newUserBody({ name: 'José' }))
    .expect(201)
  const ofGet = await headOf(port, 'GET', path, accept)
  const ofHead = await headOf(port, 'HEAD', path, accept)
  expect(ofHead.head).toEqual(ofGet.head)
  expect(ofGet.head).toContainEqual(`Content-Length: ${ofGet.bodyBytes}`)
  expect(ofGet.bodyBytes).toBeGreaterThan(0)
  expect(ofHead.bodyBytes).toBe(0)
})

test('OPTIONS / answers 204 with Allow, whatever the Accept header', async () => {
  const { http } = await openTestApp()
  const response = await http.options('/').set('Accept', 'image/png').expect(204)
  expect(response.headers.allow?.split(', ').toSorted()).toEqual(['GET', 'HEAD', 'OPTIONS'])
  expect(response.text).toBe('')
  expect(response.headers).not.toHaveProperty('content-type')
})

type Http = Awaited<ReturnType<typeof openTestApp>>['http']

async function commandsOf(http: Http, headers: Record<string, string>): Promise<string[]> {
  const { text } = await http
    .get('/')
    .set({ ...headers, Accept: 'text/html' })
    .expect(200)
  return Array.from(text.matchAll(/<code>([^<]*)<\/code>/g), ([, code = '']) =>
    code.replaceAll('&#39;', "'").replaceAll('&quot;', '"').replaceAll('&amp;', '&'),
  )
}

/** Status line and headers, without those that differ each time, and how many bytes follow them. */
async function headOf(port: number, method: string, path: string, accept: string) {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost',
    `Accept: ${accept}`,
    'X-Request-Id: same',
    'Connection: close',
  ]
  const exchange = sendRaw(port, `${lines.join('\r\n')}\r\n\r\n`)
  const received: Buffer[] = []
  exchange.socket.on('data', chunk => received.push(chunk))
  await exchange.ended
  const text = Buffer.concat(received).toString('latin1')
  const headEnd = text.indexOf('\r\n\r\n')
  const head = text.slice(0, headEnd).split('\r\n')
  return {
    head: head.filter(line => !line.startsWith('Date: ')),
    bodyBytes: text.length - headEnd - 4,
  }
}
