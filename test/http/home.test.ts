import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

const OF_CHROME =
  'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8'

const OF_FIREFOX = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

test.each([
  OF_CHROME,
  OF_FIREFOX,
  'text/html',
  'TEXT/HTML',
  'text/*',
  'application/json;q=0.5, text/html',
  'application/problem+json, text/html',
])('GET / answers a page to Accept: %s', async accept => {
  const { http } = await openTestApp()
  const { headers, text } = await http.get('/').set('Accept', accept).expect(200)
  expect(headers['content-type']).toBe('text/html; charset=utf-8')
  expect(headers.vary).toContain('Accept')
  expect(headers['x-content-type-options']).toBe('nosniff')
  expect(text).toMatch(/^<!doctype html>/i)
  for (const path of ['/users', '/livez', '/readyz']) expect(text).toContain(`href="${path}"`)
})

test.each([
  undefined,
  '*/*',
  'application/json',
  'application/*',
  'application/problem+json',
  'text/html, application/json',
  'text/html;q=0.5, application/json',
  'text/html;q=0, */*',
  'malformed',
])('GET / answers JSON to Accept: %s', async accept => {
  const { http } = await openTestApp()
  const request = http.get('/')
  const { headers, body } = await (accept === undefined
    ? request
    : request.set('Accept', accept)
  ).expect(200)
  expect(headers['content-type']).toBe('application/json; charset=utf-8')
  expect(headers.vary).toContain('Accept')
  expect(Object.values(body)).toEqual(expect.arrayContaining(['/users', '/livez', '/readyz']))
})

test('every place that GET / names is there', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/').expect(200)
  const paths = Object.values<string>(body).filter(value => value.startsWith('/'))
  expect(paths.length).toBeGreaterThan(2)
  for (const path of paths) await http.get(path).expect(200)
})

test('GET / answers 406 to who takes neither HTML nor JSON', async () => {
  const { http } = await openTestApp()
  const { body } = await http.get('/').set('Accept', 'image/png').expect(406)
  expect(body).toMatchObject({ resource: 'Request', code: 406, status: false })
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
  const { port, http } = await openTestApp()
  await http
    .post('/users')
    .send(newUserBody({ name: 'José' }))
    .expect(201)
  const ofGet = await headOf(port, 'GET', path, accept)
  const ofHead = await headOf(port, 'HEAD', path, accept)
  expect(ofHead.head).toEqual(ofGet.head)
  expect(ofGet.head).toContainEqual(`Content-Length: ${ofGet.bodyBytes}`)
  expect(ofGet.bodyBytes).toBeGreaterThan(0)
  expect(ofHead.bodyBytes).toBe(0)
})

test('OPTIONS / answers 204 with Allow, whatever the Accept header', async () => {
  const { http } = await openTestApp()
  const response = await http.options('/').set('Accept', 'image/png').expect(204)
  expect(response.headers.allow?.split(', ').toSorted()).toEqual(['GET', 'HEAD', 'OPTIONS'])
  expect(response.text).toBe('')
  expect(response.headers).not.toHaveProperty('content-type')
})

/** Status line and headers, but for what differs each time, and how many bytes follow them. */
async function headOf(port: number, method: string, path: string, accept: string) {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'Host: localhost',
    `Accept: ${accept}`,
    'X-Request-Id: same',
    'Connection: close',
  ]
  const exchange = sendRaw(port, `${lines.join('\r\n')}\r\n\r\n`)
  const received: Buffer[] = []
  exchange.socket.on('data', chunk => received.push(chunk))
  await exchange.ended
  const text = Buffer.concat(received).toString('latin1')
  const headEnd = text.indexOf('\r\n\r\n')
  const head = text.slice(0, headEnd).split('\r\n')
  return {
    head: head.filter(line => !line.startsWith('Date: ')),
    bodyBytes: text.length - headEnd - 4,
  }
}
