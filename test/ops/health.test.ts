import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { executeSql, holdWrites } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

const PATHS = ['/livez', '/readyz']

test.each(PATHS)('GET %s answers 200 and the status ok', async path => {
  const { http } = await openTestApp()
  const { headers, text } = await http.get(path).expect(200)
  expect(text).toBe('{"status":"ok"}')
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(headers['x-request-id']).toMatch(/^[\w.-]{1,128}$/)
  expect(headers['x-content-type-options']).toBe('nosniff')
  expect(headers).not.toHaveProperty('x-powered-by')
  // A cached response would describe an earlier moment.
  expect(headers['cache-control']).toBe('no-store')
})

test.each(PATHS)('HEAD %s has the headers of GET and no body', async path => {
  const { http } = await openTestApp()
  const ofGet = await http.get(path).set('X-Request-Id', 'same').expect(200)
  const ofHead = await http.head(path).set('X-Request-Id', 'same').expect(200)
  expect({ ...ofHead.headers, date: '' }).toEqual({ ...ofGet.headers, date: '' })
  expect(ofHead.headers['content-length']).toBe(String(ofGet.text.length))
  expect(ofHead.text ?? '').toBe('')
})

test.each(PATHS)('OPTIONS %s answers 204 with Allow', async path => {
  const { http } = await openTestApp()
  const response = await http.options(path).expect(204)
  expect(response.headers.allow?.split(', ').toSorted()).toEqual(['GET', 'HEAD', 'OPTIONS'])
  expect(response.text).toBe('')
})

test('GET /readyz answers 503 while the database does not answer; GET /livez 200', async () => {
  const { http, databaseUrl } = await openTestApp()
  await executeSql(databaseUrl, 'ALTER TABLE users RENAME TO elsewhere')
  const { headers, text } = await http.get('/readyz').expect(503)
  expect(text).toBe('{"status":"unavailable"}')
  expect(headers['cache-control']).toBe('no-store')
  expect(headers['retry-after']).toMatch(/^[1-9]\d*$/)
  await http.head('/readyz').expect(503)
  await http.get('/livez').expect(200, { status: 'ok' })
  await executeSql(databaseUrl, 'ALTER TABLE elsewhere RENAME TO users')
  await http.get('/readyz').expect(200, { status: 'ok' })
})

test('GET /readyz answers 200 while another process writes', async () => {
  const { http, databaseUrl } = await openTestApp()
  await holdWrites(databaseUrl)
  await http.get('/readyz').expect(200)
})

test('GET /readyz answers 503 while the service shuts down; GET /livez 200, and running requests are answered', async () => {
  const { port, http, stop } = await openTestApp()
  const body = JSON.stringify(newUserBody())
  const headers = `Host: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`
  const begun = sendRaw(port, `POST /users HTTP/1.1\r\n${headers}\r\nExpect: 100-continue\r\n\r\n`)
  // 100 Continue shows that the service has the request.
  await begun.answers(1)
  const stopped = stop()
  const { text } = await untilPasses(() => http.get('/readyz').expect(503))
  expect(text).toBe('{"status":"unavailable"}')
  await http.get('/livez').expect(200)
  // Until then requests in flight are still served.
  await untilPasses(() => http.get('/users').expect(503))
  await http.get('/readyz').expect(503)
  await http.get('/livez').expect(200)
  begun.socket.write(body)
  expect((await begun.ended).map(({ status }) => status)).toEqual([100, 201])
  expect(await stopped).toBe(true)
})
