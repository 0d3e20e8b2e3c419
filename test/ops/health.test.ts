import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openManagedApp, shareManagedApp } from '../support/management-requests.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { executeSql, holdWrites } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

const OK = { status: 'ok' }
const UNAVAILABLE = { status: 'unavailable' }

describe.each(['/livez', '/readyz'])('%s', path => {
  const app = shareManagedApp()

  test.each(['http', 'ops'] as const)('GET by %s answers 200 and the status ok', async port => {
    const { headers, text } = await app[port].get(path).expect(200)
    expect(text).toBe('{"status":"ok"}')
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    expect(headers['x-request-id']).toMatch(/^[\w.-]{1,128}$/)
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(headers).not.toHaveProperty('x-powered-by')
    // A cached response would describe an earlier moment.
    expect(headers['cache-control']).toBe('no-store')
  })

  test('HEAD has the headers of GET and no body', async () => {
    const ofGet = await app.http.get(path).set('X-Request-Id', 'same').expect(200)
    const ofHead = await app.http.head(path).set('X-Request-Id', 'same').expect(200)
    expect({ ...ofHead.headers, date: '' }).toEqual({ ...ofGet.headers, date: '' })
    expect(ofHead.headers['content-length']).toBe(String(ofGet.text.length))
    expect(ofHead.text ?? '').toBe('')
  })

  test('OPTIONS answers 204 with Allow', async () => {
    const { text } = await app.http.options(path).expect(204).expect('Allow', 'GET, HEAD, OPTIONS')
    expect(text).toBe('')
  })
})

describe('GET /readyz?verbose=true of the management port', () => {
  const app = shareManagedApp({ limits: { throttle: [{ limit: 9, period: 60 }] } })

  test('has each check by name', async () => {
    const { body, headers } = await app.ops.get('/readyz?verbose=true').expect(200)
    expect(body).toEqual({ ...OK, checks: { service: OK, storage: OK, limits: OK } })
    expect(headers['cache-control']).toBe('no-store')
    expect((await app.ops.head('/readyz?verbose=true').expect(200)).text).toBeUndefined()
  })

  test.each(['verbose=false', 'x=1&x'])('has only the status with ?%s', async query => {
    await app.ops.get(`/readyz?${query}`).expect(200, OK)
  })

  test('has no check of the limits without limits', async () => {
    const { ops } = await openManagedApp()
    const { body } = await ops.get('/readyz?verbose=true').expect(200)
    expect(body.checks).toEqual({ service: OK, storage: OK })
  })
})

test('without MANAGEMENT_PORT there is no management port', async () => {
  expect((await openTestApp()).managementUrl).toBe('')
})

test('GET /readyz answers 503 while the database does not answer, and storage_up is 0; GET /livez 200', async () => {
  const { http, ops, databaseUrl } = await openManagedApp()
  const metrics = async () => (await ops.get('/metrics').expect(200)).text
  expect(await metrics()).toContain('\nstorage_up 1\n')
  await executeSql(databaseUrl, 'ALTER TABLE users RENAME TO elsewhere')
  expect(await metrics()).toContain('\nstorage_up 0\n')
  for (const port of [http, ops]) {
    const { headers } = await port.get('/readyz').expect(503, UNAVAILABLE)
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['retry-after']).toMatch(/^[1-9]\d*$/)
    await port.head('/readyz').expect(503)
    await port.get('/livez').expect(200, OK)
  }
  await executeSql(databaseUrl, 'ALTER TABLE elsewhere RENAME TO users')
  await http.get('/readyz').expect(200, OK)
  expect(await metrics()).toContain('\nstorage_up 1\n')
})

test('GET /readyz answers 200 while another process writes', async () => {
  const { http, databaseUrl } = await openTestApp()
  await holdWrites(databaseUrl)
  await http.get('/readyz').expect(200)
})

test('GET /readyz answers 503 while the service shuts down; GET /livez 200, and running requests are answered', async () => {
  const { port, http, ops, stop } = await openManagedApp()
  const body = JSON.stringify(newUserBody())
  const headers = `Host: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
  const begun = sendRaw(port, `POST /users HTTP/1.1\r\n${headers}\r\nExpect: 100-continue\r\n\r\n`)
  // 100 Continue shows that the service has the request.
  await begun.answers(1)
  const stopped = stop()
  await untilPasses(() => http.get('/readyz').expect(503, UNAVAILABLE))
  await http.get('/livez').expect(200)
  // Until then requests in flight are still served.
  await untilPasses(() => http.get('/users').expect(503))
  await http.get('/readyz').expect(503)
  await http.get('/livez').expect(200)
  const checks = { service: UNAVAILABLE, storage: OK }
  await ops
    .get('/readyz?verbose=true')
    .expect('Retry-After', '1')
    .expect(503, {
      ...UNAVAILABLE,
      checks,
    })
  await ops.get('/livez').expect(200)
  begun.socket.write(body)
  expect((await begun.ended).map(({ status }) => status)).toEqual([100, 201])
  expect(await stopped).toBe(true)
})
