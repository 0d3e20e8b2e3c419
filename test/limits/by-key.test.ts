import { afterAll, expect, test } from 'vitest'
import { addKey, unknownKey } from '../support/api-keys.ts'
import { shareLimitedApp } from '../support/limited-app.ts'
import { databaseIn } from '../support/new-database.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'

const databaseUrl = await databaseIn(temporaryFolder(afterAll), undefined, afterAll)

const bearerOf = async (...key: Parameters<typeof addKey>) => `Bearer ${await addKey(...key)}`
const WEB = await bearerOf(databaseUrl, { name: 'web' })
const BATCH = await bearerOf(databaseUrl, { name: 'batch' })
const READER = await bearerOf(databaseUrl, { name: 'reader', scopes: ['users:read'] })
const VERIFIER = await bearerOf(databaseUrl, { name: 'verifier', scopes: ['passwords:verify'] })
const EXPIRED = await bearerOf(databaseUrl, { name: 'expired', expiresAt: 1 })

const app = shareLimitedApp({
  env: { DATABASE_URL: databaseUrl, API_KEYS: 'required' },
})

/** The statuses of `GET /users` for each of these values of `Authorization`; '' sends none. */
async function statusesOf(bearers: readonly string[], http = app.http) {
  const statuses: number[] = []
  for (const bearer of bearers) {
    const sent = http.get('/users')
    statuses.push((await (bearer === '' ? sent : sent.set('Authorization', bearer))).status)
  }
  return statuses
}

test.each([
  ['rateLimits', { to: 2, within: '1 hour' }, 429],
  ['throttle', { limit: 2, period: '1 hour' }, 429],
  ['bans', { maxretry: 2, findtime: '1 hour', bantime: '1 hour' }, 403],
])(
  '%s by key count each key apart, and no request without a valid key',
  async (kind, rule, refused) => {
    await app.startOver({ [kind]: [{ name: 'by key', ...rule, by: 'key' }] })
    const statuses = await statusesOf([WEB, WEB, WEB, BATCH, BATCH, BATCH, WEB])
    expect(statuses).toEqual([200, 200, refused, 200, 200, refused, refused])
    for (const bearer of ['', EXPIRED, `Bearer ${unknownKey()}`, 'Bearer x', 'Basic x']) {
      expect(await statusesOf(Array(4).fill(bearer))).toEqual([401, 401, 401, 401])
    }
  },
)

test('one key in two spellings of its scheme is one key for the limits', async () => {
  await app.startOver({ throttle: [{ limit: 2, period: '1 hour', by: 'key' }] })
  const statuses = await statusesOf([WEB, WEB.replace('Bearer', 'bearer'), WEB])
  expect(statuses).toEqual([200, 200, 429])
})

test('a compound key of key and path counts both together', async () => {
  await app.startOver({ throttle: [{ limit: 1, period: '1 hour', by: ['key', 'path'] }] })
  const get = (path: string) => app.http.get(path).set('Authorization', WEB)
  await get('/users').expect(200)
  await get('/users/1').expect(404)
  await get('/users').expect(429)
  await get('/users/1').expect(429)
})

test('a track by key notifies, and counts open paths too', async () => {
  await app.startOver({ track: [{ name: 'busy', limit: 1, period: '1 hour', by: 'key' }] })
  for (const path of ['/', '/openapi.json', '/users']) {
    await app.http.get(path).set('Authorization', WEB).expect(200)
  }
  expect(app.limitsReport().rules).toMatchObject([{ rule: 'busy', counted: 3 }])
  const ofRequests = app.logLines.filter(({ msg }) => msg === 'request')
  const tracked = app.logLines.filter(({ msg }) => msg === 'request tracked')
  expect(tracked).toHaveLength(1)
  expect(ofRequests.map(({ key }) => key)).toEqual(['web', 'web', 'web'])
})

test('with API_KEYS=off no request is counted by key, and a warning says so', async () => {
  const limits = { throttle: [{ limit: 1, period: 60, by: 'key' }] }
  const { http, logLines } = await openTestApp({ limits })
  expect(await statusesOf([WEB, WEB, WEB], http)).toEqual([200, 200, 200])
  expect(logLines).toContainEqual(
    expect.objectContaining({
      level: 40,
      warning: 'throttle "throttle[0]" counts nothing: API_KEYS is off, so no request has a key',
    }),
  )
})

test('the filter answers before the key is asked for', async () => {
  await app.startOver({
    blocklist: [{ name: 'scanner', userAgent: 'scanner' }],
    throttle: [{ limit: 1, period: '1 hour', path: '/users' }],
  })
  await app.http.get('/users').set('User-Agent', 'scanner').expect(403)
  await app.http.get('/%zz').set('User-Agent', 'scanner').expect(403)
  expect(await statusesOf(['', ''])).toEqual([401, 429])
})

test('a safelist lets a request pass the limits, but not without a key', async () => {
  await app.startOver({ safelist: [{ name: 'all' }], blocklist: [{ name: 'all' }] })
  expect(await statusesOf(['', WEB])).toEqual([401, 200])
})

test('a limit on a route counts no request that lacks the key or the scope', async () => {
  await app.startOver({ rateLimits: [{ to: 1, within: '1 hour' }] })
  expect(await statusesOf(['', VERIFIER, '', VERIFIER])).toEqual([401, 403, 401, 403])
  expect(await statusesOf([READER, READER])).toEqual([200, 429])
})
