import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { openTestApp } from '../../support/open-test-app.ts'

test('GET /openapi.json answers an OpenAPI 3.1 document of this version', async () => {
  const { http } = await openTestApp()
  const { headers, body } = await http.get('/openapi.json').expect(200)
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(body.openapi).toMatch(/^3\.1\.\d+$/)
  const { version } = JSON.parse(
    readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
  )
  expect(body.info).toMatchObject({ title: 'User Records Service', version })
})

test('GET /openapi.json may be stored by any cache, which revalidates it with its ETag', async () => {
  const { http } = await openTestApp()
  const first = await http.get('/openapi.json').expect(200)
  expect(first.headers.etag).toMatch(/^"[\w-]{20,}"$/)
  expect(first.headers['cache-control']).toBe('public, no-cache')
  const again = await http.get('/openapi.json').set('If-None-Match', first.headers.etag ?? '')
  expect([again.status, again.text]).toEqual([304, ''])
  for (const name of ['etag', 'cache-control', 'vary']) {
    expect(again.headers[name], name).toBe(first.headers[name])
  }
  await http.get('/openapi.json').set('If-None-Match', '"another"').expect(200)
})

test('GET /openapi.json is the same for every request and every service with the same settings', async () => {
  const first = await openTestApp()
  const second = await openTestApp()
  const [one, same, other] = [
    await first.http.get('/openapi.json'),
    await first.http.get('/openapi.json'),
    await second.http.get('/openapi.json'),
  ]
  expect([same.text, other.text]).toEqual([one.text, one.text])
  expect([same.headers.etag, other.headers.etag]).toEqual([one.headers.etag, one.headers.etag])
})

test('HEAD /openapi.json has the headers of GET and no body', async () => {
  const { http } = await openTestApp()
  const ofGet = await http.get('/openapi.json').set('X-Request-Id', 'same')
  const ofHead = await http.head('/openapi.json').set('X-Request-Id', 'same').expect(200)
  expect(ofHead.text).toBeUndefined()
  expect({ ...ofHead.headers, date: '' }).toEqual({ ...ofGet.headers, date: '' })
})

test('GET /openapi.json answers 406 to a client that accepts no JSON, and 405 names its methods', async () => {
  const { http } = await openTestApp()
  await http.get('/openapi.json').set('Accept', 'text/html').expect(406)
  await http.get('/openapi.json').set('Accept', 'application/problem+json').expect(200)
  const { headers } = await http.post('/openapi.json').expect(405)
  expect(headers.allow).toBe('GET, HEAD, OPTIONS')
})

test('the document shows PASSWORD_MIN_LENGTH and BODY_LIMIT of the service', async () => {
  const { http } = await openTestApp({ env: { PASSWORD_MIN_LENGTH: '13', BODY_LIMIT: '7kb' } })
  const { body } = await http.get('/openapi.json').expect(200)
  const { NewUser, UserChange } = body.components.schemas
  for (const { properties } of [NewUser, UserChange]) {
    expect(properties.password).toMatchObject({ minLength: 13, maxLength: 128, writeOnly: true })
  }
  expect(body.paths['/users'].post.requestBody.description).toContain('7168 bytes')
})
