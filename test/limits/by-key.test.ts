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
])('%s by key count each key apart, and no request without one', async (kind, rule, refused) => {
  await app.startOver({ [kind]: [{ name: 'by key', ...rule, by: 'key' }] })
  const lower = WEB.replace('Bearer', 'bearer')
  const statuses = await statusesOf([WEB, lower, WEB, BATCH, BATCH, BATCH, WEB])
  expect(statuses).toEqual([200, 200, refused, 200, 200, refused, refused])
  for (const bearer of ['', EXPIRED, `Bearer ${unknownKey()}`, 'Basic x']) {
    expect(await statusesOf(Array(3).fill(bearer))).toEqual([401, 401, 401])
  }
})

test('with API_KEYS=off no request is counted by key, and a warning says so', async () => {
  const limits = { throttle: [{ limit: 1, period: 60, by: 'key' }] }
  const { http, logLines } = await openTestApp({ limits })
  expect(await statusesOf([WEB, WEB], http)).toEqual([200, 200])
  const warning = 'throttle "throttle[0]" counts nothing: API_KEYS is off, so no request has a key'
  expect(logLines).toContainEqual(expect.objectContaining({ level: 40, warning }))
})

test('the filter answers before the key is asked for, and a safelist replaces no key', async () => {
  await app.startOver({
    safelist: [{ name: 'friend', userAgent: 'friend' }],
    blocklist: [{ name: 'all' }],
  })
  await app.http.get('/users').set('User-Agent', 'scanner').expect(403)
  await app.http.get('/users').set('User-Agent', 'friend').expect(401)
})

test('a limit on a route counts no request that lacks the key or the scope', async () => {
  await app.startOver({ rateLimits: [{ to: 1, within: '1 hour' }] })
  expect(await statusesOf(['', VERIFIER, '', VERIFIER])).toEqual([401, 403, 401, 403])
  expect(await statusesOf([READER, READER])).toEqual([200, 429])
})
