import { expect, test } from 'vitest'
import { unknownKey } from '../support/api-keys.ts'
import { shareLimitedApp } from '../support/limited-app.ts'
import { openTestApp } from '../support/open-test-app.ts'

const app = shareLimitedApp({
  keys: [
    { name: 'web' },
    { name: 'batch' },
    { name: 'reader', scopes: ['users:read'] },
    { name: 'verifier', scopes: ['passwords:verify'] },
    { name: 'expired', expiresAt: 1 },
  ],
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
  const [web = '', batch = '', , , expired = ''] = app.bearers
  const lower = web.replace('Bearer', 'bearer')
  const statuses = await statusesOf([web, lower, web, batch, batch, batch, web])
  expect(statuses).toEqual([200, 200, refused, 200, 200, refused, refused])
  for (const bearer of ['', expired, `Bearer ${unknownKey()}`, 'Basic x']) {
    expect(await statusesOf(Array(3).fill(bearer))).toEqual([401, 401, 401])
  }
})

test('with API_KEYS=off no request is counted by key, and a warning says so', async () => {
  const limits = { throttle: [{ limit: 1, period: 60, by: 'key' }] }
  const { http, logLines } = await openTestApp({ limits })
  const bearer = `Bearer ${unknownKey()}`
  expect(await statusesOf([bearer, bearer], http)).toEqual([200, 200])
  const warning = 'throttle "throttle[0]" counts nothing: API_KEYS is off, so no request has a key'
  expect(logLines).toContainEqual(expect.objectContaining({ level: 40, warning }))
})

test('a safelist replaces no key', async () => {
  await app.startOver({ safelist: [{}] })
  await app.http.get('/users').expect(401)
})

test('a limit on a route counts no request that lacks the key or the scope', async () => {
  await app.startOver({ rateLimits: [{ to: 1, within: '1 hour' }] })
  const [, , reader = '', verifier = ''] = app.bearers
  expect(await statusesOf(['', verifier, '', verifier])).toEqual([401, 403, 401, 403])
  expect(await statusesOf([reader, reader])).toEqual([200, 429])
})
