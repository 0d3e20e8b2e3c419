import { expect, test } from 'vitest'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'

function statusOf({ http }: TestApp, forwarded: string) {
  return http
    .get('/users')
    .set('X-Forwarded-For', forwarded)
    .then(({ status }) => status)
}

test.each([
  '198.51.100.7:4444',
  '198.51.100.7',
  '[2001:db8:1::7]:4444',
  '[2001:db8:1::7]',
  '2001:db8:1::7',
])('a blocklist of its range refuses a client that the proxy names %s', async forwarded => {
  const ip = ['198.51.100.0/24', '2001:db8:1::/48']
  const app = await openTestApp({ limits: { blocklist: [{ ip }] }, env: { TRUST_PROXY: '1' } })
  expect(await statusOf(app, forwarded)).toBe(403)
  expect(await statusOf(app, '203.0.113.7:4444')).toBe(200)
})

test.each([
  ['198.51.100.7:1', '198.51.100.7:2', '198.51.100.7'],
  ['[2001:db8::7]:1', '[2001:db8::8]:2', '2001:db8::9'],
])('a client at %s is counted with that at %s and %s', async (...clients) => {
  const limits = { throttle: [{ limit: 2, period: '1 hour' }] }
  const app = await openTestApp({ limits, env: { TRUST_PROXY: '1' } })
  const statuses = []
  for (const client of clients) statuses.push(await statusOf(app, client))
  expect(statuses).toEqual([200, 200, 429])
})

test('a proxy that is trusted by its address is also trusted with a port after it', async () => {
  const limits = { blocklist: [{ ip: '198.51.100.7' }] }
  const app = await openTestApp({ limits, env: { TRUST_PROXY: 'loopback, 10.0.0.0/8' } })
  expect(await statusOf(app, '198.51.100.7:4444, 10.1.2.3:5555')).toBe(403)
  expect(await statusOf(app, '198.51.100.7, 203.0.113.9:5555')).toBe(200)
})

test('the log names a client without the port, and any other text as it was sent', async () => {
  const { http, logLines, stop } = await openTestApp({ env: { TRUST_PROXY: '1' } })
  const sent = ['198.51.100.7:4444', 'unknown', '1.2.3:80', '[nonsense]:1', '198.51.100.7:1:2']
  for (const client of sent) await http.get('/users').set('X-Forwarded-For', client)
  await stop()
  const logged = logLines.filter(({ msg }) => msg === 'request').map(({ client }) => client)
  // Lines of several processes may be in another order.
  expect(logged.toSorted()).toEqual(['198.51.100.7', ...sent.slice(1)].toSorted())
})
