import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { executeSql } from '../support/sql.ts'

const APP = 'https://app.example.com'
const ADMIN = 'http://localhost:8080'
const STRANGER = 'https://evil.example'

const LIST = { env: { CORS_ORIGINS: `${APP}, ${ADMIN}` } }
const ANY = { env: { CORS_ORIGINS: '*' } }

const EXPOSED = [
  'ETag',
  'Link',
  'Location',
  'X-Total-Count',
  'X-Request-Id',
  'RateLimit',
  'RateLimit-Policy',
  'Retry-After',
  'Idempotency-Replayed',
]

test('without CORS_ORIGINS no answer has a CORS header', async () => {
  const { http } = await openTestApp()
  for (const response of [
    await http.get('/users').set('Origin', APP),
    await http.post('/users').set('Origin', APP).send(newUserBody()),
    await http.get('/nowhere').set('Origin', APP),
    await http.options('/users').set(preflight(APP, 'POST')),
  ]) {
    const names = Object.keys(response.headers)
    expect(names.filter(name => name.startsWith('access-control-'))).toEqual([])
    expect(fieldsIn(response.headers.vary)).toEqual(['accept'])
  }
})

test.each([APP, ADMIN])(
  'CORS_ORIGINS as a list lets %s read answers and names what it may see',
  async origin => {
    const { http } = await openTestApp(LIST)
    for (const response of [
      await http.get('/').set('Origin', origin).expect(200),
      await http.get('/users').set('Origin', origin).expect(200),
      await http.post('/users').set('Origin', origin).send(newUserBody()).expect(201),
      await http.head('/users/1').set('Origin', origin).expect(200),
      await http.put('/users/1').set('Origin', origin).send(newUserBody()).expect(200),
      await http.delete('/users/1').set('Origin', origin).expect(204),
    ]) {
      expect(response.headers['access-control-allow-origin']).toBe(origin)
      expect(response.headers['access-control-expose-headers']?.split(/, */)).toEqual(EXPOSED)
      expect(response.headers).not.toHaveProperty('access-control-allow-credentials')
      expect(fieldsIn(response.headers.vary)).toEqual(expect.arrayContaining(['accept', 'origin']))
    }
  },
)

test.each([
  STRANGER,
  'https://app.example.com.evil.example',
  'https://app.example.com:8443',
  'http://app.example.com',
  'HTTPS://APP.EXAMPLE.COM',
  `${APP}/`,
  'null',
  '*',
  '',
])('CORS_ORIGINS as a list does not let %j read answers', async origin => {
  const { http } = await openTestApp(LIST)
  const response = await http.get('/users').set('Origin', origin).expect(200)
  expect(response.headers).not.toHaveProperty('access-control-allow-origin')
  expect(fieldsIn(response.headers.vary)).toEqual(expect.arrayContaining(['accept', 'origin']))
  const options = await http.options('/users').set(preflight(origin, 'POST')).expect(204)
  expect(options.headers).not.toHaveProperty('access-control-allow-origin')
})

test('an answer to a request without an Origin varies by Origin too, because caches reuse it for requests with one', async () => {
  const { http } = await openTestApp(LIST)
  const { headers } = await http.get('/users').expect(200)
  expect(headers).not.toHaveProperty('access-control-allow-origin')
  expect(fieldsIn(headers.vary)).toEqual(expect.arrayContaining(['accept', 'origin']))
})

test.each([APP, STRANGER, 'null'])(
  'CORS_ORIGINS=* lets %s read answers, without credentials',
  async origin => {
    const { http } = await openTestApp(ANY)
    const { headers } = await http.get('/users').set('Origin', origin).expect(200)
    expect(headers['access-control-allow-origin']).toBe('*')
    expect(headers['access-control-expose-headers']?.split(/, */)).toEqual(EXPOSED)
    expect(headers).not.toHaveProperty('access-control-allow-credentials')
    expect(fieldsIn(headers.vary)).toContain('accept')
  },
)

test.each([
  ['/users', 'POST', 'GET, HEAD, POST, OPTIONS'],
  ['/users/1', 'PUT', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
  ['/users/1', 'PATCH', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
  ['/users/abc', 'DELETE', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'],
  ['/', 'GET', 'GET, HEAD, OPTIONS'],
])('a preflight of %s for %s answers 204 and what is allowed', async (path, method, allow) => {
  for (const [settings, allowed] of [
    [LIST, APP],
    [ANY, '*'],
  ] as const) {
    const { http } = await openTestApp(settings)
    const asked = 'content-type,if-match,idempotency-key,x-request-id'
    const response = await http
      .options(path)
      .set(preflight(APP, method, asked))
      .set('Accept', 'text/html')
      .expect(204)
    const { headers } = response
    expect(response.text).toBe('')
    expect(fieldsIn(headers.allow)).toEqual(fieldsIn(allow))
    expect(headers['access-control-allow-origin']).toBe(allowed)
    expect(fieldsIn(headers['access-control-allow-methods'])).toContain(method.toLowerCase())
    expect(fieldsIn(headers['access-control-allow-headers'])).toEqual(fieldsIn(asked))
    expect(fieldsIn(headers.vary)).toEqual(
      expect.arrayContaining(['accept', ...(settings === LIST ? ['origin'] : [])]),
    )
    expect(headers).toHaveProperty('x-request-id')
  }
})

test('an OPTIONS request that is not a preflight answers 204 with Allow too', async () => {
  const { http } = await openTestApp(LIST)
  const { headers } = await http.options('/users').expect(204)
  expect(fieldsIn(headers.allow)).toEqual(['get', 'head', 'options', 'post'])
  expect(headers).not.toHaveProperty('access-control-allow-origin')
})

test('errors have the CORS headers too', async () => {
  const { http, databaseUrl } = await openTestApp(LIST)
  const wrong = newUserBody({ email: 'x' })
  const long = newUserBody({ name: 'x'.repeat(200_000) })
  const responses = [
    await http.get('/users/%zz').set('Origin', APP).expect(400),
    await http.get('/nowhere').set('Origin', APP).expect(404),
    await http.get('/users/999').set('Origin', APP).expect(404),
    await http.delete('/users').set('Origin', APP).expect(405),
    await http.get('/users').set('Origin', APP).set('Accept', 'text/html').expect(406),
    await http.post('/users').set('Origin', APP).send(long).expect(413),
    await http.post('/users').set('Origin', APP).type('text').send('x').expect(415),
    await http.post('/users').set('Origin', APP).send(wrong).expect(422),
  ]
  await executeSql(databaseUrl, 'DROP TABLE users')
  responses.push(await http.get('/users').set('Origin', APP).expect(500))
  for (const { headers } of responses) {
    expect(headers['access-control-allow-origin']).toBe(APP)
    expect(headers['access-control-expose-headers']?.split(/, */)).toEqual(EXPOSED)
    expect(fieldsIn(headers.vary)).toEqual(expect.arrayContaining(['accept', 'origin']))
    expect(headers['cache-control']).toBe('no-store')
  }
})

function preflight(origin: string, method: string, headers?: string): Record<string, string> {
  return {
    Origin: origin,
    'Access-Control-Request-Method': method,
    ...(headers !== undefined && { 'Access-Control-Request-Headers': headers }),
  }
}

/** The members of a list of names, sorted, in lower case. */
function fieldsIn(header: string | undefined): string[] {
  return (header ?? '').toLowerCase().split(/, */).toSorted()
}
