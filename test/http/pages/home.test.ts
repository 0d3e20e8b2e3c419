import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { SCOPES } from '../../../src/access/scopes.ts'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp, type TestApp } from '../../support/open-test-app.ts'
import { sendRaw } from '../../support/raw-http.ts'
import { CLOSING, requestBytes } from '../../support/raw-request.ts'
import { shareKeyedApp, shareTestApp } from '../../support/shared-app.ts'
import { executeSql } from '../../support/sql.ts'

const PROJECT = new URL('../../../', import.meta.url)

const { version } = JSON.parse(readFileSync(new URL('package.json', PROJECT), 'utf8'))

const PATHS = ['/docs', '/openapi.json', '/users', '/livez', '/readyz']

const OF_CHROME =
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8'

const OF_FIREFOX = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

const app = shareTestApp({ users: [newUserBody({ name: 'José' })] })

const keyed = shareKeyedApp([{}])

const getPage = ({ http }: TestApp) => http.get('/').set('Accept', 'text/html').expect(200)

test.each([
  ...[OF_CHROME, OF_FIREFOX, 'text/html', 'TEXT/HTML', 'text/*'],
  ...['application/json;q=0.5, text/html', 'application/problem+json, text/html'],
])('GET / answers a page to Accept: %s', async accept => {
  const { headers, text } = await app.http.get('/').set('Accept', accept).expect(200)
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers.vary).toContain('Accept')
  expect(headers['x-content-type-options']).toBe('nosniff')
  expect(text).toMatch(/^<!doctype html>/i)
  for (const path of PATHS) expect(text).toContain(`href="${path}"`)
  expect(text).toContain(`version ${version}`)
})

test.each([
  ...[undefined, '*/*', 'application/json', 'application/*', 'application/problem+json'],
  ...['text/html, application/json', 'text/html;q=0.5, application/json'],
  ...['text/html;q=0, */*', 'malformed'],
])('GET / answers JSON to Accept: %s', async accept => {
  const wish: Record<string, string> = accept === undefined ? {} : { Accept: accept }
  const { headers, body } = await app.http.get('/').set(wish).expect(200)
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
  for (const path of PATHS) await app.http.get(path).expect(200)
})

test('GET / answers 406 to a client that accepts neither HTML nor JSON', async () => {
  const { body } = await app.http.get('/').set('Accept', 'image/png').expect(406)
  expect(body).toMatchObject({ resource: 'Request', code: 406, status: false })
})

test('GET / answers 200 also without a database, and says so in its JSON', async () => {
  const own = await openTestApp()
  const { text } = await getPage(own)
  await executeSql(own.databaseUrl, 'ALTER TABLE users RENAME TO elsewhere')
  expect((await own.http.get('/').expect(200)).body.status).toBe('unavailable')
  expect((await getPage(own)).text).toBe(text)
  await executeSql(own.databaseUrl, 'ALTER TABLE elsewhere RENAME TO users')
  expect((await own.http.get('/').expect(200)).body.status).toBe('ok')
})

test('the page of GET / has no script and nothing inline, and loads its style from this service', async () => {
  const { headers, text } = await getPage(app)
  expect(headers['content-security-policy']).toBe(
    "default-src 'none'; style-src 'self'; img-src data:; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  )
  expect(text).not.toMatch(/<script|<style|\sstyle=|\son\w+=|https?:\/\/(?!127\.0\.0\.1)/i)
  const [, style = ''] = /<link rel="stylesheet" href="([^"]+)">/.exec(text) ?? []
  const { headers: ofStyle } = await app.http.get(style).expect(200)
  expect(ofStyle['content-type']).toBe('text/css; charset=utf-8')
})

test('the page of GET / is the same for every client and with every setting', async () => {
  const { text } = await getPage(app)
  for (const host of ['localhost', '[::1]:80', "127.0.0.1'"]) {
    expect((await getPage(keyed).set('Host', host)).text).toBe(text)
  }
})

test('the page of GET / shows the commands of the README', async () => {
  const readme = readFileSync(new URL('README.md', PROJECT), 'utf8')
  const { commands } = await commandsOf(app)
  expect(commands.length).toBeGreaterThan(6)
  for (const command of commands) expect(readme).toContain(`\`\`\`sh\n${command}\n\`\`\``)
})

test('the JSON of GET / says whether a key is required', async () => {
  expect((await app.http.get('/').expect(200)).body.message).not.toContain('key')
  const { body } = await keyed.http.get('/').expect(200)
  expect(body.message).toMatch(/ need an API key: "Authorization: Bearer KEY"\.$/)
})

test('where a key is required, the commands of GET / work with what the page says about keys', async () => {
  const { option, create, commands } = await commandsOf(keyed)
  const scopes = SCOPES.join(',')
  expect(create).toBe(`npx user-records-service keys create --name trial --scope ${scopes}`)
  const [bearer = ''] = keyed.bearers
  const statuses = []
  for (const command of commands) {
    expect(await statusOf(keyed, command)).toBe(401)
    const withKey = `${command} ${option.replace('Bearer KEY', bearer)}`
    statuses.push(await statusOf(keyed, withKey))
  }
  expect(statuses).toEqual([201, 200, 200, 200, 422, 200, 204, 201, 200])
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
  const [ofGet, getBody] = await headAndBody(`GET ${path}`, accept)
  const [ofHead, headBody] = await headAndBody(`HEAD ${path}`, accept)
  expect(ofHead).toEqual(ofGet)
  expect(getBody.length).toBeGreaterThan(0)
  expect(ofGet).toContain(`Content-Length: ${getBody.length}\r\n`)
  expect(headBody).toBe('')
})

test('OPTIONS / answers 204 with Allow, whatever the Accept header', async () => {
  const response = await app.http.options('/').set('Accept', 'image/png').expect(204)
  expect(response.headers.allow?.split(', ').toSorted()).toEqual(['GET', 'HEAD', 'OPTIONS'])
  expect(response.text).toBe('')
  expect(response.headers).not.toHaveProperty('content-type')
})

/** What the page shows as code: the option with a key, the command that creates one, and the requests. */
async function commandsOf(of: TestApp) {
  const { text } = await getPage(of)
  const [option = '', create = '', ...commands] = Array.from(
    text.matchAll(/<code>([^<]*)<\/code>/g),
    ([, code = '']) => code.replaceAll('&amp;', '&'),
  )
  return { option, create, commands }
}

/** The status of the response to a command of curl. */
async function statusOf({ url }: TestApp, command: string): Promise<number> {
  const words = Array.from(
    command.replaceAll('\\\n', ' ').matchAll(/'([^']*)'|(\S+)/g),
    ([, quoted, bare]) => quoted ?? bare ?? '',
  )
  const after = (option: string) => words.filter((_, at) => words[at - 1] === option)
  const [target = ''] = words.filter(word => word.startsWith('http://'))
  const [body] = after('-d')
  const [method = body === undefined ? 'GET' : 'POST'] = after('-X')
  const headers = after('-H').map(header => header.split(': ', 2) as [string, string])
  const here = target.replace('http://127.0.0.1:3000', url)
  const { status } = await fetch(here, { method, headers, ...(body !== undefined && { body }) })
  return status
}

/** What is received: status line and headers without the date, and what follows them, as bytes. */
async function headAndBody(line: string, accept: string): Promise<readonly [string, string]> {
  const headers = { ...CLOSING, Accept: accept, 'X-Request-Id': 'same' }
  const exchange = sendRaw(app.port, requestBytes(line, headers))
  let received = ''
  exchange.socket.on('data', chunk => {
    received += chunk.toString('latin1')
  })
  await exchange.ended
  const [head = '', body = ''] = received.split('\r\n\r\n')
  return [`${head}\r\n`.replace(/Date: .*\r\n/, ''), body]
}
