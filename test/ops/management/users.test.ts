import { beforeAll, describe, expect, test } from 'vitest'
import { withKeyStore } from '../../support/api-keys.ts'
import { newUserBody } from '../../support/builders.ts'
import {
  BEARER,
  type ManagedApp,
  openManagedApp,
  shareManagedApp,
  TOKEN,
} from '../../support/management-requests.ts'
import { openResponse } from '../../support/open-response.ts'
import { until } from '../../support/until.ts'

const ANN = newUserBody({ name: 'Ann', email: 'ann@example.com' })
const LOCKED = { env: { MANAGEMENT_TOKEN: TOKEN } }
const NDJSON = 'application/x-ndjson'
const EVENTS = 'text/event-stream'

/** The stream of changes of the management port, of which nothing is read yet. */
const openEvents = ({ managementPort }: ManagedApp) =>
  openResponse(managementPort, '/users/changes', { Accept: EVENTS, ...BEARER })

describe('each answers as on the public port:', () => {
  const app = shareManagedApp({ users: [ANN, newUserBody(), newUserBody()] })
  const ABSENT = { 'If-None-Match': '*' }
  const MERGE = { 'Content-Type': 'application/merge-patch+json' }
  let cursor = ''

  // On PostgreSQL a change shows once no older transaction of the server runs.
  beforeAll(async () => {
    await until(async () => (await app.ops.get('/users/changes')).body.data.length === 3)
    // The cursor of a page without one, which more follow, says when it began.
    cursor = (await app.ops.get('/users/changes?limit=1')).body.next
  })

  test.each<[string, Record<string, string>?, (object | string)?]>([
    ['GET /users'],
    ['HEAD /users'],
    ['GET /users?page=1&per_page=1&count=true&envelope=true'],
    ['GET /users?per_page=0&colour=red'],
    ['GET /users', { Accept: NDJSON }],
    ['GET /users', { Accept: 'text/html' }],
    ['GET /users/1'],
    ['HEAD /users/1', { 'If-Match': '"other"' }],
    ['GET /users/1', ABSENT],
    ['GET /users/01', { Accept: 'application/problem+json' }],
    ['GET /users/changes'],
    ['GET /users/changes?limit=1&after=CURSOR'],
    ['GET /users/changes?limit=x'],
    ['OPTIONS /users'],
    ['OPTIONS /users/1'],
    ['PUT /users'],
    ['POST /users/1'],
    ['DELETE /users/changes'],
    ['GET /users/'],
    ['GET /Users'],
    ['GET /users/%zz'],
    ['POST /users', {}, { user: { name: '', email: 'ANN@example.com' } }],
    ['POST /users', { 'Idempotency-Key': 'a b' }, ANN],
    ['POST /users', { 'Content-Type': 'text/plain' }, 'user[name]=Ann'],
    ['POST /users', { 'Content-Type': 'application/json' }, '{'],
    ['PUT /users/1', { 'If-Match': '"other"' }, { user: { name: 'Bea' } }],
    ['PATCH /users/1', MERGE, '{"user":{"name":"Ann"}}'],
    ['PATCH /users/9', {}, { user: { name: 'Ann' } }],
    ['DELETE /users/1', ABSENT],
    ['DELETE /users/9'],
  ])('%s with %j and %j', async (line, headers = {}, body) => {
    const [method = '', path = ''] = line.replace('CURSOR', cursor).split(' ')
    const answers = []
    for (const port of ['http', 'ops'] as const) {
      const lower = method.toLowerCase() as 'get'
      const sending = app[port][lower](path).set('X-Request-Id', 'same').set(headers)
      const { status, headers: own, text: sent } = await sending.send(body as object)
      answers.push({ status, headers: { ...own, date: '' }, sent })
    }
    expect(answers[1]).toEqual(answers[0])
  })

  test.each(['get', 'post', 'options'] as const)(
    'but %s /password-verifications is 404',
    async method => {
      const { body } = await app.ops[method]('/password-verifications').expect(404)
      expect(body).toMatchObject({ reason: 'path_not_found', resource: 'Request' })
    },
  )
})

test('a user is created, found, corrected, given a password and deleted, without keys and limits', async () => {
  const limits = {
    throttle: [{ name: 'none', limit: 1, period: '1 hour' }],
    rateLimits: [{ to: 1, within: 60 }],
  }
  const { ops, http, bearers, logLines } = await openManagedApp({
    ...LOCKED,
    ...{ limits, keys: [{ scopes: ['passwords:verify'] }] },
  })
  const created = await ops.post('/users').set(BEARER).send(ANN).expect(201)
  expect(created.headers).toMatchObject({ location: '/users/1', etag: expect.any(String) })
  expect(created.headers).not.toHaveProperty('ratelimit')
  const found = await ops.get('/users?q=ann').set(BEARER).expect(200)
  expect(found.body).toEqual([created.body])
  const change = { user: { name: 'Anna', password: 'a new password' } }
  const asSeen = { ...BEARER, 'If-Match': String(created.headers.etag) }
  for (const status of [200, 412]) await ops.put('/users/1').set(asSeen).send(change).expect(status)
  const user = { email: 'ann@example.com', password: 'a new password' }
  const asClient = { Authorization: bearers[0] ?? '' }
  await http.post('/password-verifications').set(asClient).send({ user }).expect(200)
  await ops.get('/users/1').set(BEARER).expect(200)
  await ops.delete('/users/1').set(BEARER).expect(204)
  const seen = logLines.filter(({ port }) => port === 'management')
  const about = seen.flatMap(({ level, method, user, fields }) =>
    level === 30 && user === 1 ? [[method, fields]] : [],
  )
  expect(about).toEqual([
    ['POST', ['name', 'email']],
    ['PUT', ['name', 'password']],
    ['GET', undefined],
    ['DELETE', undefined],
  ])
  await ops.delete('/users/1').set(BEARER).expect(404)
})

describe('with API_KEYS=required and without MANAGEMENT_TOKEN', () => {
  const app = shareManagedApp({ keys: [{}] })

  test.each(['GET /users', 'POST /users', 'GET /users/1', 'PATCH /users/1', 'GET /users/changes'])(
    '%s is 403 and says why, also with a key',
    async line => {
      const [method = '', path = ''] = line.split(' ')
      for (const Authorization of [undefined, app.bearers[0]]) {
        const lower = method.toLowerCase() as 'get'
        const sending = app.ops[lower](path).set(
          Authorization === undefined ? {} : { Authorization },
        )
        const { body, headers } = await sending.expect(403)
        expect(body).toEqual({
          message:
            'Users are on this port only with MANAGEMENT_TOKEN, because API keys are required',
          ...{ resource: 'User', code: 403, status: false, reason: 'token_required' },
        })
        expect(headers).not.toHaveProperty('www-authenticate')
      }
    },
  )

  test('the rest of the port is open', async () => {
    await app.ops.get('/bans').expect(200)
  })
})

test('a change is waited for and streamed with the token, while keys are required', async () => {
  const app = await openManagedApp({ ...LOCKED, keys: [{}] })
  const { body } = await app.ops.get('/users/changes').set(BEARER).expect(200)
  const waiting = app.ops.get(`/users/changes?wait=60&after=${body.next}`).set(BEARER)
  const answered = waiting.then(answer => answer.body.data)
  const events = await openEvents(app)
  events.setEncoding('utf8')
  let seen = ''
  events.on('data', part => {
    seen += part
  })
  // Followers look at their key at each change that is not theirs.
  await withKeyStore(app.databaseUrl, store => store.revoke('other'))
  await app.ops.post('/users').set(BEARER).send(ANN).expect(201)
  expect(await answered).toMatchObject([{ id: 1, user: { name: 'Ann' } }])
  await until(() => seen.includes('"id":1'))
  expect(await app.stop(60_000)).toBe(true)
  expect(events.complete).toBe(false)
})

test('waiting requests of both ports are bounded together', async () => {
  const app = await openManagedApp({ env: { MAX_WAITING_REQUESTS: '1', ...LOCKED.env } })
  await openEvents(app)
  await app.http.get('/users/changes').set('Accept', EVENTS).expect(503)
  const { body } = await app.http.get('/users/changes?wait=60').expect(200)
  expect(body.data).toEqual([])
})
