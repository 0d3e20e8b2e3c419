import { readFileSync } from 'node:fs'
import { get, type IncomingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { openTestApp } from '../../support/open-test-app.ts'
import { askAndClose, CLOSING, requestBytes } from '../../support/raw-request.ts'
import { shareTestApp } from '../../support/shared-app.ts'

const SWAGGER = new URL('../../../node_modules/swagger-ui-dist/', import.meta.url)

const OF_CHROME =
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8'

const CLOSED_CSP = "default-src 'none'; frame-ancestors 'none'"

const TYPES: Readonly<Record<string, string>> = {
  'icon.svg': 'image/svg+xml; charset=utf-8',
  'index.css': 'text/css; charset=utf-8',
  'start.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
}

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  /** As received, compressed or not. */
  readonly bytes: Buffer
}

const app = shareTestApp()

/** The folder of the files that the page loads, such as `/docs/0123456789abcdef`. */
let folder: string

beforeAll(async () => {
  const { text } = await app.http.get('/docs').expect(200)
  folder = `/${/src="(docs\/[0-9a-f]{16})\//.exec(text)?.[1] ?? ''}`
})

/** A path with the name of the folder in it. */
const pathOf = (template: string) => template.replace('{folder}', folder)

function getBytes(path: string, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = get(app.url + path, { agent: false, headers }, async response => {
      const bytes = Buffer.concat(await response.toArray())
      resolve({ status: response.statusCode, headers: response.headers, bytes })
    })
    asked.on('error', reject)
  })
}

function inflated({ headers, bytes }: Answer): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes
}

test.each([undefined, '*/*', 'text/html', 'text/*', OF_CHROME])(
  'GET /docs answers a page to Accept: %s',
  async accept => {
    const wish: Record<string, string> = accept === undefined ? {} : { Accept: accept }
    const { headers, text } = await app.http.get('/docs').set(wish).expect(200)
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'cache-control': 'private, no-cache',
      'x-content-type-options': 'nosniff',
      'x-request-id': expect.stringMatching(/^[\w.-]+$/),
    })
    expect(text).toMatch(/^<!doctype html>\n<html lang="en">/)
    expect(text).toMatch(/<title>User Records Service\b[^<]+<\/title>/)
    expect(text).toContain('<meta name="viewport" content="width=device-width, initial-scale=1">')
  },
)

test.each(['application/json', 'application/problem+json', 'image/png', 'text/html;q=0, */*'])(
  'GET /docs answers 406 to Accept: %s, because it comes as HTML only',
  async accept => {
    const { headers, body } = await app.http.get('/docs').set('Accept', accept).expect(406)
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['content-security-policy']).toBe(CLOSED_CSP)
    const told = accept === 'application/problem+json' ? 'detail' : 'message'
    expect(body).toMatchObject({ [told]: 'Only text/html is available', reason: 'not_acceptable' })
  },
)

test('the policy of GET /docs allows only files of this service, and nothing inline', async () => {
  const { headers, text } = await app.http.get('/docs').expect(200)
  expect(headers['content-security-policy']).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
      "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  )
  const scripts = [...text.matchAll(/<script([^>]*)>([^<]*)</g)]
  expect(scripts.length).toBeGreaterThan(0)
  for (const [, attributes, content] of scripts) {
    expect([attributes?.includes(' src="docs/'), content]).toEqual([true, ''])
  }
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=/i)
  const addresses = Array.from(text.matchAll(/\s(?:src|href)="([^"]*)"/g), ([, to]) => to)
  const files = Object.keys(TYPES).map(name => `${folder.slice(1)}/${name}`)
  expect(addresses.filter(to => to !== 'openapi.json').sort()).toEqual(files.sort())
})

test.each(Object.entries(TYPES))(
  'GET /docs loads %s, which exists and may be cached forever',
  async (name, type) => {
    const answer = await getBytes(`${folder}/${name}`)
    expect(answer.status).toBe(200)
    expect(answer.bytes.length).toBeGreaterThan(100)
    expect(answer.headers).toMatchObject({
      'content-type': type,
      'content-length': String(answer.bytes.length),
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'Accept, Accept-Encoding',
      'x-content-type-options': 'nosniff',
      'content-security-policy': CLOSED_CSP,
      'x-request-id': expect.stringMatching(/^[\w.-]+$/),
    })
    expect(answer.headers).not.toHaveProperty('content-encoding')
  },
)

test.each(['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt'])(
  'the licence of the files of GET /docs is beside them: %s',
  async name => {
    const { status, headers, bytes } = await getBytes(`${folder}/${name}`)
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8'])
    expect(bytes).toEqual(readFileSync(new URL(name, SWAGGER)))
  },
)

test.each([
  [undefined, undefined],
  ['', undefined],
  ['identity', undefined],
  ['deflate', undefined],
  ['gzip', 'gzip'],
  ['gzip, deflate, br, zstd', 'gzip'],
  ['br', undefined],
  ['br;q=0.5, gzip', 'gzip'],
  ['gzip;q=0', undefined],
  ['gzip;q=0.2, identity;q=0.8', undefined],
  ['gzip;q=0.8, identity;q=0.2', 'gzip'],
  ['*', 'gzip'],
  ['identity;q=0', undefined],
  [';;,,=;q', undefined],
])('to Accept-Encoding: %s a file of GET /docs is sent as %s', async (accept, coding) => {
  const headers: Record<string, string> = accept === undefined ? {} : { 'Accept-Encoding': accept }
  const answer = await getBytes(`${folder}/swagger-ui-bundle.js`, headers)
  expect(answer.status).toBe(200)
  expect(answer.headers['content-encoding']).toBe(coding)
  expect(answer.headers['content-length']).toBe(String(answer.bytes.length))
  expect(answer.headers.vary).toBe('Accept, Accept-Encoding')
  const bundle = readFileSync(new URL('swagger-ui-bundle.js', SWAGGER))
  expect(inflated(answer).equals(bundle)).toBe(true)
  if (coding !== undefined) expect(answer.bytes.length).toBeLessThan(bundle.length / 3)
})

test('clients that open GET /docs at once and read it slowly get every byte, while others are served', async () => {
  const path = `${folder}/swagger-ui-bundle.js`
  const slow = Array.from({ length: 30 }, () => {
    const socket = connect(app.port, '127.0.0.1').pause()
    onTestFinished(() => void socket.destroy())
    socket.write(requestBytes(`GET ${path}`, CLOSING))
    return socket
  })
  const codings = Array.from({ length: 12 }, (_, index) => ['gzip', 'identity'][index % 2] ?? '')
  const answers = await Promise.all(
    codings.map(coding => getBytes(path, { 'Accept-Encoding': coding })),
  )
  const bundle = readFileSync(new URL('swagger-ui-bundle.js', SWAGGER))
  expect(answers.every(answer => inflated(answer).equals(bundle))).toBe(true)
  await app.http.get('/users').expect(200)
  for (const socket of slow) {
    const received = Buffer.concat(await socket.toArray())
    expect(received.subarray(-bundle.length).equals(bundle)).toBe(true)
  }
})

test.each([
  ...['swagger-ui-bundle.js.gz', 'index.html', 'Swagger-UI.css', 'swagger-ui.css/', '']
    .concat(['__proto__', 'constructor', '..%2fassets.json', '%2e%2e%2fassets.json'])
    .concat(['..%5cassets.json', '../assets.json', '../../../package.json', '/etc/passwd'])
    .concat(['%00', 'swagger-ui.css%00.js'])
    .map(name => `{folder}/${name}`),
  ...['{folder}', '/docs/0123456789abcdef/swagger-ui.css', '/docs/../swagger-ui.css'],
  ...['/docs/%2e/swagger-ui.css', '/docs/assets.json', '/docs/', '/DOCS', '/docs.html'],
])('GET %s answers 404', async template => {
  const answer = await askAndClose(app.port, `GET ${pathOf(template)}`)
  expect(answer.status).toBe(404)
  expect(answer.headers['cache-control']).toBe('no-store')
  expect(JSON.parse(answer.body)).toMatchObject({ resource: 'Request', code: 404 })
})

test('a file of GET /docs whose name cannot be decoded answers 400', async () => {
  await app.http.get(`${folder}/%zz`).expect(400)
})

test.each(['/docs', '{folder}/swagger-ui.css', '/docs/nothing/there'])(
  '%s allows GET, HEAD and OPTIONS, and answers 405 to all else',
  async template => {
    const { http } = app
    const path = pathOf(template)
    const options = await http.options(path).expect(204)
    expect(options.headers.allow).toBe('GET, HEAD, OPTIONS')
    for (const method of ['post', 'put', 'patch', 'delete'] as const) {
      const { headers, body } = await http[method](path).set('Accept', 'image/png').expect(405)
      expect(headers.allow).toBe('GET, HEAD, OPTIONS')
      expect(body).toMatchObject({ resource: 'Request', code: 405, status: false })
    }
  },
)

test.each(['/docs', '{folder}/swagger-ui.css', '{folder}/nothing'])(
  'HEAD %s has the headers of GET and no body',
  async template => {
    const same = { 'X-Request-Id': 'same', 'Accept-Encoding': 'gzip' }
    const ofGet = await app.http.get(pathOf(template)).set(same)
    const ofHead = await app.http.head(pathOf(template)).set(same)
    expect(ofHead.status).toBe(ofGet.status)
    expect({ ...ofHead.headers, date: '' }).toEqual({ ...ofGet.headers, date: '' })
    expect(Number(ofHead.headers['content-length'])).toBeGreaterThan(0)
    expect(ofHead.text ?? '').toBe('')
  },
)

test('a file of GET /docs is sent whatever the Accept header says', async () => {
  for (const accept of ['text/css,*/*;q=0.1', 'image/png', 'application/json']) {
    await app.http.get(`${folder}/swagger-ui.css`).set('Accept', accept).expect(200)
  }
})

test('the filter sees GET /docs like any request, and no route limit counts it', async () => {
  const limits = {
    blocklist: [{ path: '/docs*', userAgent: 'Scanner' }],
    rateLimits: [{ to: 1, within: '1 hour' }],
  }
  const { http } = await openTestApp({ limits })
  const path = `${folder}/swagger-ui.css`
  for (const asked of ['/docs', path, '/docs', path]) {
    await http.get(asked).set('User-Agent', 'Scanner').expect(403)
    const { headers } = await http.get(asked).expect(200)
    expect(headers).not.toHaveProperty('ratelimit')
  }
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
})

test('with CORS_ORIGINS a file of GET /docs varies by origin too', async () => {
  const Origin = 'https://app.example.com'
  const { http } = await openTestApp({ env: { CORS_ORIGINS: Origin } })
  const { headers } = await http.get(`${folder}/swagger-ui.css`).set({ Origin }).expect(200)
  expect(headers.vary).toBe('Accept, Accept-Encoding, Origin')
  expect(headers['access-control-allow-origin']).toBe(Origin)
  const page = await http.get('/docs').set({ Origin }).expect(200)
  expect(page.headers.vary).toBe('Accept, Origin')
})
