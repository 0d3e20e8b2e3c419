import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { responseHeadersIn } from '../support/described-interface.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'

const APP = 'https://app.example.com'
const ADMIN = 'http://localhost:8080'
const STRANGER = 'https://evil.example'

const SHELLS = ['capacitor://localhost', 'tauri://localhost', 'chrome-extension://abcdefgh']

const LIST = { CORS_ORIGINS: [APP, ADMIN, ...SHELLS].join(', ') }

const EXPOSED = [
  ...['ETag', 'Link', 'Location', 'X-Total-Count', 'X-Request-Id', 'RateLimit'],
  ...['RateLimit-Policy', 'Retry-After', 'Idempotency-Replayed', 'Preference-Applied', 'Allow'],
  ...['Accept-Patch', 'Accept-Encoding', 'WWW-Authenticate', 'Content-Disposition'],
]

const ASKED = 'content-type,if-match,idempotency-key,x-request-id'

type Headers = Record<string, string>

const preflight = (origin: string, method = 'POST'): Headers => ({
  Origin: origin,
  'Access-Control-Request-Method': method,
  'Access-Control-Request-Headers': ASKED,
  'Access-Control-Request-Private-Network': 'true',
})

/** The members of a list of names, sorted, in lower case. */
function fieldsIn(header: string | undefined): string[] {
  return (header ?? '').toLowerCase().split(/, */).toSorted()
}

/** Expects that pages of `allowed` may read the answer. */
function expectReadable({ headers }: { headers: Headers }, allowed: string): void {
  expect(headers['access-control-allow-origin']).toBe(allowed)
  expect(headers['access-control-expose-headers']?.split(/, */)).toEqual(EXPOSED)
  expect(headers).not.toHaveProperty('access-control-allow-credentials')
  expect(fieldsIn(headers.vary)).toEqual(allowed === '*' ? ['accept'] : ['accept', 'origin'])
}

/** A request of each kind, in turn. */
async function askEach({ http }: TestApp, Origin: string) {
  const created = await http.post('/users').set({ Origin }).send(newUserBody()).expect(201)
  const path = created.headers.location ?? ''
  return [
    created,
    await http.get('/').set({ Origin }).expect(200),
    await http.get('/users').set({ Origin }).expect(200),
    await http.head(path).set({ Origin }).expect(200),
    await http.put(path).set({ Origin }).send(newUserBody()).expect(200),
    await http.delete(path).set({ Origin }).expect(204),
    await http.get('/nowhere').set({ Origin }).expect(404),
    await http.get('/livez').set({ Origin }).expect(200),
    await http.get('/readyz').set({ Origin }).expect(200),
  ]
}

/** Expects that a preflight of each path is answered. */
async function expectPreflights({ http }: TestApp, origin: string, allowed: string): Promise<void> {
  for (const [path, method, allow] of [
    ['/users', 'POST', 'GET, HEAD, POST, DELETE, OPTIONS'],
    ['/users/1', 'PATCH', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
    ['/', 'GET', 'GET, HEAD, OPTIONS'],
    ['/readyz', 'GET', 'GET, HEAD, OPTIONS'],
  ] as const) {
    const { text, headers } = await http.options(path).set(preflight(origin, method)).expect(204)
    expect(text).toBe('')
    expect(fieldsIn(headers.allow)).toEqual(fieldsIn(allow))
    expect(headers['access-control-allow-origin']).toBe(allowed)
    expect(headers['access-control-max-age']).toBe('600')
    expect(fieldsIn(headers['access-control-allow-methods'])).toContain(method.toLowerCase())
    expect(fieldsIn(headers['access-control-allow-headers'])).toEqual(fieldsIn(ASKED))
    expect(fieldsIn(headers.vary)).toEqual(
      expect.arrayContaining(allowed === '*' ? ['accept'] : ['accept', 'origin']),
    )
  }
}

test('without CORS_ORIGINS no answer has a CORS header', async () => {
  const app = await openTestApp()
  const options = await app.http.options('/users').set(preflight(APP))
  for (const { headers } of [options, ...(await askEach(app, APP))]) {
    expect(Object.keys(headers).filter(name => name.startsWith('access-control-'))).toEqual([])
    expect(fieldsIn(headers.vary)).toEqual(['accept'])
  }
})

test('scripts may read every header of the document', async () => {
  const { http } = await openTestApp({ keys: [{ name: 'web' }] })
  const { body } = await http.get('/openapi.json').expect(200)
  expect(EXPOSED).toEqual(expect.arrayContaining(responseHeadersIn(body)))
})

describe('CORS_ORIGINS as a list', () => {
  const app = shareTestApp({ env: LIST })

  test.each([APP, ADMIN, ...SHELLS])(
    'lets %s read answers and names what it may see',
    async origin => {
      for (const answer of await askEach(app, origin)) expectReadable(answer, origin)
      await expectPreflights(app, origin, origin)
    },
  )

  // Caches reuse an answer without an Origin for requests with one.
  test.each([
    ...[undefined, STRANGER, `${APP}.evil.example`, `${APP}:8443`, 'http://app.example.com'],
    ...['HTTPS://APP.EXAMPLE.COM', `${APP}/`, 'null', '*', ''],
  ])('does not let %j read answers, which vary by Origin too', async Origin => {
    const sent = Origin === undefined ? {} : { Origin }
    const answer = await app.http.get('/users').set(sent).expect(200)
    const options = await app.http.options('/users').set(Origin ? preflight(Origin) : sent)
    for (const { headers } of [answer, options]) {
      expect(headers).not.toHaveProperty('access-control-allow-origin')
    }
    expect(fieldsIn(answer.headers.vary)).toEqual(['accept', 'origin'])
    expect(options.status).toBe(204)
    expect(fieldsIn(options.headers.allow)).toEqual(['delete', 'get', 'head', 'options', 'post'])
  })
})

test.each([STRANGER, 'null'])(
  'CORS_ORIGINS=* lets %s read answers, without credentials',
  async origin => {
    const app = await openTestApp({ env: { CORS_ORIGINS: '*' } })
    for (const answer of await askEach(app, origin)) expectReadable(answer, '*')
    await expectPreflights(app, origin, '*')
  },
)

test('errors have the CORS headers too', async () => {
  const { http, databaseUrl } = await openTestApp({ env: LIST })
  const Origin = APP
  const responses = [
    await http.get('/users/%zz').set({ Origin }).expect(400),
    await http.put('/users').set({ Origin }).expect(405),
    await http.get('/users').set({ Origin, Accept: 'text/html' }).expect(406),
    await http.post('/users').set({ Origin }).type('text').send('x').expect(415),
    await http.post('/users').set({ Origin }).send({}).expect(422),
  ]
  await executeSql(databaseUrl, 'DROP TABLE users')
  responses.push(await http.get('/users').set({ Origin }).expect(500))
  for (const response of responses) expectReadable(response, APP)
})
