import { describe, expect, test } from 'vitest'
import { createReadinessCheck } from '../../src/ops/health.ts'
import { openManagedApp, shareManagedApp } from '../support/management-requests.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { beginPost } from '../support/raw-http.ts'
import { executeSql } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

const OK = { status: 'ok' }
const UNAVAILABLE = { status: 'unavailable' }

describe('health checks', () => {
  const app = shareManagedApp({ limits: { throttle: [{ limit: 9, period: 60 }] } })

  test.each(['/livez', '/readyz'])(
    'GET %s answers 200 and the status ok on both ports',
    async path => {
      for (const port of [app.http, app.ops]) {
        const { headers, text } = await port.get(path).expect(200)
        expect(text).toBe('{"status":"ok"}')
        // A cached response would describe an earlier moment.
        expect(headers).toMatchObject({
          ...{ 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' },
          ...{ 'x-request-id': expect.any(String), 'x-content-type-options': 'nosniff' },
        })
      }
      const head = await app.http.head(path).expect(200)
      expect([head.headers['content-length'], head.text ?? '']).toEqual(['15', ''])
      await app.http.options(path).expect(204).expect('Allow', 'GET, HEAD, OPTIONS')
    },
  )

  test('GET /readyz?verbose=true of the management port has each check by name', async () => {
    const checks = { service: OK, storage: OK, limits: OK }
    await app.ops.get('/readyz?verbose=true').expect(200, { ...OK, checks })
    for (const query of ['verbose=false', 'x=1&x']) {
      await app.ops.get(`/readyz?${query}`).expect(200, OK)
    }
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
  // There are no limits, and so no check of them.
  const checks = { service: OK, storage: UNAVAILABLE }
  await ops.get('/readyz?verbose=true').expect(503, { ...UNAVAILABLE, checks })
  await executeSql(databaseUrl, 'ALTER TABLE elsewhere RENAME TO users')
  await http.get('/readyz').expect(200, OK)
  expect(await metrics()).toContain('\nstorage_up 1\n')
})

test('GET /readyz answers 503 while the service shuts down; GET /livez 200, and running requests are answered', async () => {
  const { port, http, ops, stop } = await openManagedApp()
  const post = await beginPost(port)
  const stopped = stop()
  await untilPasses(() => http.get('/readyz').expect(503, UNAVAILABLE))
  // Until then requests in flight are still served.
  await untilPasses(() => http.get('/users').expect(503))
  const checks = { service: UNAVAILABLE, storage: OK }
  const verbose = ops.get('/readyz?verbose=true').expect('Retry-After', '1')
  await verbose.expect(503, { ...UNAVAILABLE, checks })
  for (const each of [http, ops]) await each.get('/livez').expect(200)
  post.finish()
  expect((await post.ended).map(({ status }) => status)).toEqual([100, 201])
  expect(await stopped).toBe(true)
})

test('a readiness check with a timeout does not wait longer for the database', async () => {
  const ping = () => new Promise<void>(() => {})
  const shortage = () => undefined
  const options = { ping, shortage, isStopping: () => false, isCountingLocally: undefined }
  const checks = { service: OK, storage: UNAVAILABLE }
  expect(await createReadinessCheck(options)(1)).toEqual({ isReady: false, checks })
})
