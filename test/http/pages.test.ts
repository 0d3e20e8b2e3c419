import { readFileSync } from 'node:fs'
import { get, type IncomingHttpHeaders } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { beforeAll, expect, test } from 'vitest'
import { SCOPES } from '../../src/access/api-key.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { askAndClose, CLOSING, requestBytes, sendRaw } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'

const PROJECT = new URL('../../', import.meta.url)

const BUNDLE = new URL('node_modules/swagger-ui-dist/swagger-ui-bundle.js', PROJECT)

const PATHS = ['/docs', '/openapi.json', '/users', '/livez', '/readyz']

const OF_CHROME =
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8'

const TYPES: Readonly<Record<string, string>> = {
  'icon.svg': 'image/svg+xml; charset=utf-8',
  'index.css': 'text/css; charset=utf-8',
  'docs.css': 'text/css; charset=utf-8',
  'start.js': 'text/javascript; charset=utf-8',
  'commands.js': 'text/javascript; charset=utf-8',
  'swagger-ui.css': 'text/css; charset=utf-8',
  'swagger-ui-bundle.js': 'text/javascript; charset=utf-8',
}

const app = shareTestApp({ users: [newUserBody({ name: 'José' })] })

/** The folder of the files that the page of `GET /docs` loads, such as `/docs/0123456789abcdef`. */
let folder: string

beforeAll(async () => {
  const { text } = await app.http.get('/docs').expect(200)
  folder = `/${/src="(docs\/[0-9a-f]{16})\//.exec(text)?.[1] ?? ''}`
})

const getPage = ({ http }: TestApp, path = '/') => http.get(path).set('Accept', 'text/html')

test.each([
  ...['text/html', 'text/*', OF_CHROME].flatMap(accept => [
    ['/', accept],
    ['/docs', accept],
  ]),
  ['/', 'application/json;q=0.5, text/html'],
  ['/docs', '*/*'],
] as [string, string][])('GET %s answers a page to Accept: %s', async (path, accept) => {
  const { headers, text } = await app.http.get(path).set('Accept', accept).expect(200)
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers.vary).toContain('Accept')
  expect(text).toMatch(/^<!doctype html>\n<html lang="en">/)
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script>/i)
})

test.each([
  ...[undefined, '*/*', 'application/json', 'application/problem+json'],
  ...['text/html, application/json', 'text/html;q=0, */*', 'malformed'],
])('GET / answers JSON to Accept: %s', async accept => {
  const wish: Record<string, string> = accept === undefined ? {} : { Accept: accept }
  const { headers, body } = await app.http.get('/').set(wish).expect(200)
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(body).toEqual({
    message: expect.stringMatching(/^User Records Service: (?!.*key)/),
    version: versionOfPackage(),
    status: 'ok',
    docs: '/docs',
    openapi: '/openapi.json',
    users: '/users',
    health: '/livez',
    readiness: '/readyz',
  })
})

test.each([
  ['/', 'image/png'],
  ['/docs', 'application/json'],
  ['/docs', 'text/html;q=0, */*'],
])('GET %s answers 406 to Accept: %s', async (path, accept) => {
  const { body } = await app.http.get(path).set('Accept', accept).expect(406)
  expect(body).toMatchObject({ resource: 'Request', code: 406, reason: 'not_acceptable' })
})

test('the page of GET / has the version, links to every path and the commands of README.md and docs/', async () => {
  const { text } = await getPage(app).expect(200)
  expect(text).toContain(`version ${versionOfPackage()}`)
  for (const path of PATHS) expect(text).toContain(`href="${path}"`)
  const pages = ['README.md', 'docs/users.md', 'docs/lists.md']
    .map(page => readFileSync(new URL(page, PROJECT), 'utf8'))
    .join()
  const codes = Array.from(text.matchAll(/<code>([^<]*)<\/code>/g), ([, code = '']) =>
    code.replaceAll('&amp;', '&'),
  )
  const [option, create, ...commands] = codes
  expect(option).toContain('Authorization: Bearer KEY')
  const scopes = SCOPES.join(',')
  expect(create).toBe(`npx user-records-service keys create --name trial --scope ${scopes}`)
  expect(commands.length).toBeGreaterThan(6)
  expect(text).not.toContain('DELETE')
  for (const command of commands) expect(pages).toContain(`\`\`\`sh\n${command}\n\`\`\``)
})

test('GET / answers 200 also without a database, and says so in its JSON', async () => {
  const own = await openTestApp()
  await executeSql(own.databaseUrl, 'ALTER TABLE users RENAME TO elsewhere')
  expect((await own.http.get('/').expect(200)).body.status).toBe('unavailable')
  await getPage(own).expect(200)
  await executeSql(own.databaseUrl, 'ALTER TABLE elsewhere RENAME TO users')
  expect((await own.http.get('/').expect(200)).body.status).toBe('ok')
})

test('GET / and GET /docs load only files of this service, each of which may be cached forever', async () => {
  const loaded = []
  for (const path of ['/', '/docs']) {
    const { text } = await getPage(app, path)
    const all = text.matchAll(/<(?:script|link|img)[^>]*\s(?:src|href)="([^"]*)"/g)
    loaded.push(...Array.from(all, ([, to = '']) => `/${to.replace(/^\//, '')}`))
  }
  const files = loaded.filter(to => to.startsWith(folder)).map(to => to.slice(folder.length + 1))
  expect(files).toEqual(expect.arrayContaining(Object.keys(TYPES)))
  for (const to of loaded.filter(path => path !== '/openapi.json' && !path.startsWith('/data:'))) {
    const { headers } = await app.http.get(to).set('Accept', 'image/png').expect(200)
    expect(headers).toMatchObject({
      'content-type': TYPES[to.slice(folder.length + 1)] ?? 'text/css; charset=utf-8',
      'cache-control': 'public, max-age=31536000, immutable',
      vary: 'Accept, Accept-Encoding',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
    })
  }
})

test.each([
  [undefined, undefined],
  ['gzip', 'gzip'],
  ['br', undefined],
  ['br;q=0.5, gzip', 'gzip'],
  ['gzip;q=0', undefined],
  ['gzip;q=0.2, identity;q=0.8', undefined],
  ['*', 'gzip'],
  ['identity;q=0', undefined],
  [';;,,=;q', undefined],
])('to Accept-Encoding: %s a file of GET /docs is sent as %s', async (accept, coding) => {
  const { headers, bytes } = await getBytes(`${folder}/swagger-ui-bundle.js`, accept)
  expect(headers).toMatchObject({ 'content-length': String(bytes.length) })
  expect(headers['content-encoding']).toBe(coding)
  const plain = coding === 'gzip' ? gunzipSync(bytes) : bytes
  expect(plain.equals(readFileSync(BUNDLE))).toBe(true)
})

test.each([
  ...['swagger-ui-bundle.js.gz', 'Swagger-UI.css', 'swagger-ui.css/', '', '__proto__']
    .concat(['..%2fassets.json', '%2e%2e%2fassets.json', '..%5cassets.json', '../assets.json'])
    .concat(['../../../package.json', '/etc/passwd', '%00', 'swagger-ui.css%00.js'])
    .map(name => `{folder}/${name}`),
  ...['{folder}', '/docs/0123456789abcdef/swagger-ui.css', '/docs/../swagger-ui.css'],
  ...['{folder}.gz/swagger-ui.css', '{folder}/.', '{folder}/..', `{folder}/${'a'.repeat(300)}`],
  ...['/docs/assets.json', '/docs/', '/DOCS'],
])('GET %s answers 404', async template => {
  const answer = await askAndClose(app.port, `GET ${template.replace('{folder}', folder)}`)
  expect(answer.status).toBe(404)
  expect(JSON.parse(answer.body)).toMatchObject({ resource: 'Request', code: 404 })
})

test.each([
  ['/', 'application/json'],
  ['/', OF_CHROME],
  ['/docs', OF_CHROME],
  ['{folder}/swagger-ui.css', '*/*'],
  ['{folder}/nothing', '*/*'],
  ['/openapi.json', '*/*'],
  ['/users?per_page=1&page=2&count=true', '*/*'],
  ['/users/1', '*/*'],
  ['/users/999', 'application/problem+json'],
  ['/users/1', 'text/html'],
  ['/users/%zz', '*/*'],
])('HEAD %s has the headers of GET and no body, with Accept: %s', async (template, accept) => {
  const path = template.replace('{folder}', folder)
  const [ofGet, getBody] = await headAndBody(`GET ${path}`, accept)
  const [ofHead, headBody] = await headAndBody(`HEAD ${path}`, accept)
  expect(ofHead).toBe(ofGet)
  expect(getBody.length).toBeGreaterThan(0)
  expect(ofGet).toContain(`Content-Length: ${getBody.length}\r\n`)
  expect(headBody).toBe('')
})

function versionOfPackage(): string {
  return JSON.parse(readFileSync(new URL('package.json', PROJECT), 'utf8')).version
}

/** The headers and bytes as received, compressed or not. */
function getBytes(path: string, coding?: string) {
  return new Promise<{ headers: IncomingHttpHeaders; bytes: Buffer }>((resolve, reject) => {
    const headers = coding === undefined ? {} : { 'Accept-Encoding': coding }
    const asked = get(app.url + path, { agent: false, headers }, async response => {
      resolve({ headers: response.headers, bytes: Buffer.concat(await response.toArray()) })
    })
    asked.on('error', reject)
  })
}

/** What is received: status line and headers without the date, and what follows them, as bytes. */
async function headAndBody(line: string, accept: string): Promise<readonly [string, string]> {
  const headers = { ...CLOSING, Accept: accept, 'X-Request-Id': 'same' }
  const received = await sendRaw(app.port, requestBytes(line, headers)).text
  const [head = '', body = ''] = received.split('\r\n\r\n')
  return [`${head}\r\n`.replace(/Date: .*\r\n/, ''), body]
}
