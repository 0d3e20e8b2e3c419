import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { get, type IncomingHttpHeaders } from 'node:http'
import { connect } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { gunzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { openTestApp } from '../../support/open-test-app.ts'
import { sendRaw } from '../../support/raw-http.ts'

const PROJECT = new URL('../../../', import.meta.url)

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

/** The licences of the files. */
const LICENCES = ['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt']

interface Answer {
  readonly status: number | undefined
  readonly headers: IncomingHttpHeaders
  /** As received, compressed or not. */
  readonly bytes: Buffer
}

function getBytes(url: string, headers: Record<string, string> = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = get(url, { agent: false, headers }, async response => {
      const bytes = Buffer.concat(await response.toArray())
      resolve({ status: response.statusCode, headers: response.headers, bytes })
    })
    asked.on('error', reject)
  })
}

/** The folder of the files that the page loads, such as `/docs/0123456789abcdef`. */
async function folderOf(url: string): Promise<string> {
  const { bytes } = await getBytes(`${url}/docs`)
  return `/${/src="(docs\/[0-9a-f]{16})\//.exec(String(bytes))?.[1] ?? ''}`
}

test.each([undefined, '*/*', 'text/html', 'text/*', OF_CHROME])(
  'GET /docs answers a page to Accept: %s',
  async accept => {
    const { http } = await openTestApp()
    const request = http.get('/docs')
    const { headers, text } = await (accept === undefined
      ? request
      : request.set('Accept', accept)
    ).expect(200)
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
    const { http } = await openTestApp()
    const { headers, body } = await http.get('/docs').set('Accept', accept).expect(406)
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['content-security-policy']).toBe(CLOSED_CSP)
    const message = 'Only text/html is available'
    expect(body).toEqual(
      accept === 'application/problem+json'
        ? {
            type: 'about:blank',
            title: 'Not Acceptable',
            status: 406,
            detail: message,
            instance: '/docs',
            reason: 'not_acceptable',
          }
        : {
            message,
            resource: 'Request',
            code: 406,
            status: false,
            reason: 'not_acceptable',
          },
    )
  },
)

test('the policy of GET /docs allows only files of this service, and nothing inline', async () => {
  const { http } = await openTestApp()
  const { headers, text } = await http.get('/docs').expect(200)
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
  expect(addresses.filter(to => !/^(?:docs\/|openapi\.json$)/.test(to ?? ''))).toEqual([])
})

test('GET /docs loads files that exist and may be cached forever', async () => {
  const { url } = await openTestApp()
  const { bytes } = await getBytes(`${url}/docs`)
  const paths = Array.from(
    String(bytes).matchAll(/\s(?:src|href)="(docs\/[^"]*)"/g),
    ([, path = '']) => `/${path}`,
  )
  expect(paths.map(path => path.slice(path.lastIndexOf('/') + 1)).toSorted()).toEqual(
    Object.keys(TYPES).toSorted(),
  )
  for (const path of paths) {
    const answer = await getBytes(url + path)
    expect(answer.status).toBe(200)
    expect(answer.bytes.length).toBeGreaterThan(100)
    expect(answer.headers).toMatchObject({
      'content-type': TYPES[path.slice(path.lastIndexOf('/') + 1)],
      'content-length': String(answer.bytes.length),
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'Accept, Accept-Encoding',
      'x-content-type-options': 'nosniff',
      'content-security-policy': CLOSED_CSP,
      'x-request-id': expect.stringMatching(/^[\w.-]+$/),
    })
    expect(answer.headers).not.toHaveProperty('content-encoding')
  }
})

test('the licences of the files of GET /docs are beside them', async () => {
  const { url } = await openTestApp()
  const folder = await folderOf(url)
  for (const name of LICENCES) {
    const { status, headers, bytes } = await getBytes(`${url}${folder}/${name}`)
    expect([status, headers['content-type']]).toEqual([200, 'text/plain; charset=utf-8'])
    expect(bytes).toEqual(readFileSync(new URL(`node_modules/swagger-ui-dist/${name}`, PROJECT)))
  }
})

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
  const { url } = await openTestApp()
  const path = `${await folderOf(url)}/swagger-ui-bundle.js`
  const headers = accept === undefined ? {} : { 'Accept-Encoding': accept }
  const answer = await getBytes(url + path, headers)
  expect(answer.status).toBe(200)
  expect(answer.headers['content-encoding']).toBe(coding)
  expect(answer.headers['content-length']).toBe(String(answer.bytes.length))
  expect(answer.headers.vary).toBe('Accept, Accept-Encoding')
  const bundle = readFileSync(new URL(`node_modules/swagger-ui-dist/swagger-ui-bundle.js`, PROJECT))
  expect(inflated(answer).equals(bundle)).toBe(true)
  if (coding !== undefined) expect(answer.bytes.length).toBeLessThan(bundle.length / 3)
})

test('clients that open GET /docs at once and read it slowly get every byte, while others are served', async () => {
  const { url, port, http } = await openTestApp()
  const path = `${await folderOf(url)}/swagger-ui-bundle.js`
  const slow = Array.from({ length: 30 }, () => {
    const socket = connect(port, '127.0.0.1').pause()
    onTestFinished(() => {
      socket.destroy()
    })
    socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    return socket
  })
  const codings = Array.from({ length: 12 }, (_, index) => ['gzip', 'identity'][index % 2])
  const answers = await Promise.all(
    codings.map(coding => getBytes(url + path, { 'Accept-Encoding': coding ?? '' })),
  )
  const [first] = answers.map(inflated)
  expect(answers.every(answer => first && inflated(answer).equals(first))).toBe(true)
  await http.get('/users').expect(200)
  for (const socket of slow) {
    const received = Buffer.concat(await socket.toArray())
    expect(received.subarray(-(first?.length ?? 0)).equals(first as Buffer)).toBe(true)
  }
})

test.each([
  '{folder}/swagger-ui-bundle.js.gz',
  '{folder}/index.html',
  '{folder}/Swagger-UI.css',
  '{folder}/swagger-ui.css/',
  '{folder}/',
  '{folder}',
  '{folder}/__proto__',
  '{folder}/constructor',
  '{folder}/..%2fassets.json',
  '{folder}/%2e%2e%2fassets.json',
  '{folder}/..%5cassets.json',
  '{folder}/../assets.json',
  '{folder}/../../../package.json',
  '{folder}//etc/passwd',
  '{folder}/%00',
  '{folder}/swagger-ui.css%00.js',
  '/docs/0123456789abcdef/swagger-ui.css',
  '/docs/../swagger-ui.css',
  '/docs/%2e/swagger-ui.css',
  '/docs/assets.json',
  '/docs/',
  '/DOCS',
  '/docs.html',
])('GET %s answers 404', async template => {
  const { url, port } = await openTestApp()
  const path = template.replace('{folder}', await folderOf(url))
  const lines = [`GET ${path} HTTP/1.1`, 'Host: localhost', 'Connection: close']
  const [answer] = await sendRaw(port, `${lines.join('\r\n')}\r\n\r\n`).ended
  expect(answer?.status).toBe(404)
  expect(answer?.headers['cache-control']).toBe('no-store')
  expect(JSON.parse(answer?.body ?? '')).toMatchObject({ resource: 'Request', code: 404 })
})

test('a file of GET /docs whose name cannot be decoded answers 400', async () => {
  const { http, url } = await openTestApp()
  await http.get(`${await folderOf(url)}/%zz`).expect(400)
})

test.each(['/docs', '{folder}/swagger-ui.css', '/docs/nothing/there'])(
  '%s allows GET, HEAD and OPTIONS, and answers 405 to all else',
  async template => {
    const { http, url } = await openTestApp()
    const path = template.replace('{folder}', await folderOf(url))
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
    const { http, url } = await openTestApp()
    const path = template.replace('{folder}', await folderOf(url))
    const same = { 'X-Request-Id': 'same', 'Accept-Encoding': 'gzip' }
    const ofGet = await http.get(path).set(same)
    const ofHead = await http.head(path).set(same)
    expect(ofHead.status).toBe(ofGet.status)
    expect({ ...ofHead.headers, date: '' }).toEqual({ ...ofGet.headers, date: '' })
    expect(Number(ofHead.headers['content-length'])).toBeGreaterThan(0)
    expect(ofHead.text ?? '').toBe('')
  },
)

test('a file of GET /docs is sent whatever the Accept header says', async () => {
  const { http, url } = await openTestApp()
  const path = `${await folderOf(url)}/swagger-ui.css`
  for (const accept of ['text/css,*/*;q=0.1', 'image/png', 'application/json']) {
    await http.get(path).set('Accept', accept).expect(200)
  }
})

test('the filter sees GET /docs like any request, and no route limit counts it', async () => {
  const { http, url } = await openTestApp({
    limits: {
      blocklist: [{ path: '/docs*', userAgent: 'Scanner' }],
      rateLimits: [{ to: 1, within: '1 hour' }],
    },
  })
  const path = `${await folderOf(url)}/swagger-ui.css`
  for (const asked of ['/docs', path, '/docs', path]) {
    await http.get(asked).set('User-Agent', 'Scanner').expect(403)
    const { headers } = await http.get(asked).expect(200)
    expect(headers).not.toHaveProperty('ratelimit')
  }
  await http.get('/users').expect(200)
  await http.get('/users').expect(429)
})

test('with CORS_ORIGINS a file of GET /docs varies by origin too', async () => {
  const { http, url } = await openTestApp({ env: { CORS_ORIGINS: 'https://app.example.com' } })
  const path = `${await folderOf(url)}/swagger-ui.css`
  const { headers } = await http.get(path).set('Origin', 'https://app.example.com').expect(200)
  expect(headers.vary).toBe('Accept, Accept-Encoding, Origin')
  expect(headers['access-control-allow-origin']).toBe('https://app.example.com')
  const page = await http.get('/docs').set('Origin', 'https://app.example.com').expect(200)
  expect(page.headers.vary).toBe('Accept, Origin')
})

test('the npm package contains the pages, their files and the licences', async () => {
  const { stdout } = await promisify(execFile)(
    'npm',
    ['pack', '--dry-run', '--json', '--ignore-scripts', '--silent'],
    { cwd: fileURLToPath(PROJECT), maxBuffer: 2 ** 24 },
  )
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }]
  const names = files
    .map(({ path }) => path)
    .filter(path => path.startsWith('dist/docs/'))
    .map(path => path.slice(path.lastIndexOf('/') + 1))
  expect(names).toEqual(
    expect.arrayContaining([
      ...['assets.json', 'index.html', 'home.html', 'home.css', 'swagger-ui-bundle.js.gz'],
      ...[...LICENCES, ...Object.keys(TYPES)],
    ]),
  )
  const operator = files.map(({ path }) => path).filter(path => path.startsWith('dist/operator/'))
  for (const name of ['assets.json', 'index.html', 'start.js.gz', 'uPlot.iife.min.js', 'LICENSE']) {
    expect(operator.some(path => path.endsWith(`/${name}`))).toBe(true)
  }
})

function inflated({ headers, bytes }: Answer): Buffer {
  return headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes
}
