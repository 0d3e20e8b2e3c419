import { expect, test } from 'vitest'
import { type KeyedApp, openKeyedApp, unknownKey } from '../support/api-keys.ts'
import { openTestApp } from '../support/open-test-app.ts'

const TWO_KEYS = [{ name: 'web' }, { name: 'batch' }]

/** The statuses of `GET /users` for each of these values of `Authorization`; '' sends none. */
async function statusesOf({ http }: Pick<KeyedApp, 'http'>, bearers: readonly string[]) {
  const statuses: number[] = []
  for (const bearer of bearers) {
    const sent = http.get('/users')
    statuses.push((await (bearer === '' ? sent : sent.set('Authorization', bearer))).status)
  }
  return statuses
}

const COUNTED = [
  ['rateLimits', { to: 2, within: '1 hour', by: 'key' }, 429],
  ['throttle', { limit: 2, period: '1 hour', by: 'key' }, 429],
  ['bans', { maxretry: 2, findtime: '1 hour', bantime: '1 hour', by: 'key' }, 403],
] as const

test.each(COUNTED)('%s count by key, each key apart', async (kind, rule, refused) => {
  const app = await openKeyedApp(TWO_KEYS, { limits: { [kind]: [{ name: 'by key', ...rule }] } })
  const [web = '', batch = ''] = app.bearers
  const statuses = await statusesOf(app, [web, web, web, batch, batch, batch, web])
  expect(statuses).toEqual([200, 200, refused, 200, 200, refused, refused])
})

test.each(COUNTED)('%s by key count no request without a valid key', async (kind, rule) => {
  const app = await openKeyedApp([{ expiresAt: 1 }], { limits: { [kind]: [rule] } })
  const [expired = ''] = app.bearers
  for (const bearer of ['', expired, `Bearer ${unknownKey()}`, 'Bearer x', 'Basic x']) {
    expect(await statusesOf(app, Array(4).fill(bearer))).toEqual([401, 401, 401, 401])
  }
})

test('two keys of one name, one after the other, are one key for the limits', async () => {
  const throttle = [{ limit: 2, period: '1 hour', by: 'key' }]
  const app = await openKeyedApp([{ name: 'web' }], { limits: { throttle } })
  const [web = ''] = app.bearers
  expect(await statusesOf(app, [web, web.replace('Bearer', 'bearer'), web])).toEqual([
    200, 200, 429,
  ])
})

test('a compound key of key and path counts both together', async () => {
  const throttle = [{ limit: 1, period: '1 hour', by: ['key', 'path'] }]
  const app = await openKeyedApp([{}], { limits: { throttle } })
  const [bearer = ''] = app.bearers
  const get = (path: string) => app.http.get(path).set('Authorization', bearer)
  await get('/users').expect(200)
  await get('/users/1').expect(404)
  await get('/users').expect(429)
  await get('/users/1').expect(429)
})

test('a track by key notifies, and counts open paths too', async () => {
  const track = [{ name: 'busy', limit: 1, period: '1 hour', by: 'key' }]
  const app = await openKeyedApp([{ name: 'web' }], { limits: { track } })
  const [bearer = ''] = app.bearers
  for (const path of ['/', '/openapi.json', '/users']) {
    await app.http.get(path).set('Authorization', bearer).expect(200)
  }
  expect(
    app.logLines.filter(({ msg, type }) => msg !== 'request' && type === 'track'),
  ).toHaveLength(1)
  const lines = app.logLines.filter(({ msg }) => msg === 'request')
  expect(lines.map(({ key }) => key)).toEqual(['web', 'web', 'web'])
})

test('with API_KEYS=off no request is counted by key, and a warning says so', async () => {
  const app = await openTestApp({ limits: { throttle: [{ limit: 1, period: 60, by: 'key' }] } })
  const bearer = `Bearer ${unknownKey()}`
  expect(await statusesOf(app, [bearer, bearer, bearer])).toEqual([200, 200, 200])
  expect(app.logLines).toContainEqual(
    expect.objectContaining({
      level: 40,
      warning: 'throttle "throttle[0]" counts nothing: API_KEYS is off, so no request has a key',
    }),
  )
})

test('the filter answers before the key is asked for', async () => {
  const limits = {
    blocklist: [{ name: 'scanner', userAgent: 'scanner' }],
    throttle: [{ limit: 1, period: '1 hour', path: '/users' }],
  }
  const { http } = await openKeyedApp([], { limits })
  await http.get('/users').set('User-Agent', 'scanner').expect(403)
  await http.get('/%zz').set('User-Agent', 'scanner').expect(403)
  await http.get('/users').expect(401)
  await http.get('/users').expect(429)
})

test('a safelist lets a request pass the limits, but not without a key', async () => {
  const limits = { safelist: [{ name: 'all' }], blocklist: [{ name: 'all' }] }
  const { http } = await openKeyedApp([], { limits })
  await http.get('/users').expect(401)
})

test('a limit on a route counts no request that lacks the key or the scope', async () => {
  const limits = { rateLimits: [{ to: 1, within: '1 hour' }] }
  const keys = [
    { name: 'reader', scopes: ['users:read'] },
    { name: 'verifier', scopes: ['passwords:verify'] },
  ] as const
  const app = await openKeyedApp(keys, { limits })
  const [reader = '', verifier = ''] = app.bearers
  expect(await statusesOf(app, ['', verifier, '', verifier])).toEqual([401, 403, 401, 403])
  expect(await statusesOf(app, [reader, reader])).toEqual([200, 429])
})
