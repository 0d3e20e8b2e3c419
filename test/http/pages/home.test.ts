import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { openKeyedApp } from '../../support/api-keys.ts'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, temporaryFolder } from '../../support/open-test-app.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { run } from '../../support/spawn-service.ts'
import { executeSql } from '../../support/sql.ts'
import { until } from '../../support/until.ts'

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

test('the page of GET / has no script and nothing inline, and loads its style from this service', async () => {
  const { http } = await openTestApp()
  const { headers, text } = await http.get('/').set('Accept', 'text/html').expect(200)
  expect(headers['content-security-policy']).toBe(
    "default-src 'none'; style-src 'self'; img-src data:; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  )
  expect(text).not.toMatch(/<script|<style|\sstyle=|\son\w+=|https?:\/\/(?!127\.0\.0\.1)/i)
  const [, style = ''] = /<link rel="stylesheet" href="([^"]+)">/.exec(text) ?? []
  const { headers: ofStyle } = await http.get(style).expect(200)
  expect(ofStyle['content-type']).toBe('text/css; charset=utf-8')
})

test('the page of GET / is the same for every client and with every setting', async () => {
  const { http } = await openTestApp()
  const { text } = await http.get('/').set('Accept', 'text/html').expect(200)
  const other = await openKeyedApp([])
  for (const host of ['localhost', '[::1]:80', "127.0.0.1'"]) {
    const page = await other.http.get('/').set({ Accept: 'text/html', Host: host }).expect(200)
    expect(page.text).toBe(text)
  }
})

test('the page of GET / shows the commands of the README', async () => {
  const { http } = await openTestApp()
  const readme = readFileSync(new URL('README.md', PROJECT), 'utf8')
  const { commands } = await commandsOf(http)
  expect(commands.length).toBeGreaterThan(6)
  for (const command of commands) expect(readme).toContain(`\`\`\`sh\n${command}\n\`\`\``)
})

test('the JSON of GET / says whether a key is required', async () => {
  const open = await openTestApp()
  expect((await open.http.get('/').expect(200)).body.message).not.toContain('key')
  const { http } = await openKeyedApp([])
  const { body } = await http.get('/').expect(200)
  expect(body.message).toMatch(/ need an API key: "Authorization: Bearer KEY"\.$/)
})

test('where a key is required, the commands of GET / work with what the page says about keys', async () => {
  const { http, url, databaseUrl } = await openKeyedApp([])
  const { option, create, commands } = await commandsOf(http)
  expect(create).toMatch(/^npx user-records-service keys create /)
  const cwd = temporaryFolder()
  const args = create.split(' ').slice(2)
  const { code, stdout } = await run({ cwd, env: { DATABASE_URL: databaseUrl }, args })
  expect(code).toBe(0)
  const Authorization = `Bearer ${stdout.trim()}`
  await until(async () => (await http.get('/users').set({ Authorization })).status === 200)

  const statuses = []
  for (const command of commands) {
    const here = command.replace('http://127.0.0.1:3000', url)
    expect(await statusOf(here)).toBe('401')
    statuses.push(await statusOf(`${here} ${option.replace('KEY', stdout.trim())}`))
  }
  expect(statuses).toEqual(['201', '200', '200', '200', '422', '200', '204', '201', '200'])
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

/** What the page shows as code: the option with a key, the command that creates one, and the requests. */
async function commandsOf(http: Http) {
  const { text } = await http.get('/').set('Accept', 'text/html').expect(200)
  const [option = '', create = '', ...commands] = Array.from(
    text.matchAll(/<code>([^<]*)<\/code>/g),
    ([, code = '']) => code.replaceAll('&amp;', '&'),
  )
  return { option, create, commands }
}

/** The status of the last response to a command of curl. */
async function statusOf(command: string): Promise<string> {
  const script = command.replace(/^curl/, "curl -s -o /dev/null -w '%{http_code}'")
  const { stdout } = await promisify(execFile)('bash', ['-c', script])
  return stdout
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
