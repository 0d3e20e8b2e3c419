import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { byEngine } from '../support/engine.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openLimitedApp } from '../support/limited-app.ts'
import { countUsers } from '../support/many-users.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql, selectRows } from '../support/sql.ts'
import { until } from '../support/until.ts'

const RANGE = 'must have 1 to 100 users'
const NO_ARRAY = 'must be an array'
const BESIDE = "can't be sent together with user"

const app = shareTestApp()

function newUsers(count: number, fields: Record<string, unknown> = {}) {
  return Array.from({ length: count }, () => newUserBody(fields).user)
}

function post({ http }: Pick<TestApp, 'http'>, users: unknown) {
  return http.post('/users').send({ users } as object)
}

async function waitingPasswords({ managementUrl }: TestApp): Promise<number> {
  const metrics = parseMetrics(await (await fetch(`${managementUrl}/metrics`)).text())
  return metrics.read('queue_length', { queue: 'passwords' }) ?? 0
}

/** An entry for the answer to a single create. */
function entryOf({ status, body }: { status: number; body: Record<string, unknown> }): object {
  if (status === 201) return { status, user: body }
  const { message, reason, errors } = body
  return { status, message, reason, errors }
}

const ODD = [null, undefined, 5, 'x', true, [], [{ name: 'Ann', email: 'in-array@x.co' }], {}]

/** Users of every kind, some of which have the e-mails of others. */
const MIXED = [
  { name: 'Ann', email: 'ann@x.co', password: 'correct horse' },
  { name: ' ', email: 'ANN@x.co' },
  { name: 'Bob', email: ' Ann@X.co ' },
  { name: '', email: 'bob@x.co' },
  { name: 'Bob', email: 'bob@x.co', password: null, admin: true },
  { name: 'Old', email: 'TAKEN@x.co', password: 'correct horse' },
  { name: 5, email: 'taken@x.co', password: 'x' },
  { name: 'Zoe\u0308 "\\', email: 'zoe@x.co', password: '😀'.repeat(128) },
  { email: 'bob' },
  ...ODD,
  { name: 'Last', email: 'last@x.co' },
]

describe('POST /users with users', () => {
  test('answers 200 and for each user, in order and to the byte, what it would get alone', async () => {
    const clock = createFakeClock()
    const users = [newUserBody({ email: 'taken@x.co' })]
    const [together, alone] = [
      await openTestApp({ now: clock.now, users }),
      await openTestApp({ now: clock.now, users }),
    ]
    const answer = await post(together, MIXED).expect(200)
    const entries = []
    for (const user of MIXED) {
      const body = {
        user: user === undefined || Object(user) !== user || Array.isArray(user) ? {} : user,
      }
      entries.push(entryOf(await alone.http.post('/users').send(body)))
    }
    // Only the ids may differ: on PostgreSQL a refused create may use one up.
    const withoutIds = (text: string) => text.replaceAll(/"id":\d+/g, '"id":0')
    expect(withoutIds(answer.text)).toBe(withoutIds(JSON.stringify({ data: entries })))
    expect(answer.body.data[0].user.id).toBeLessThan(answer.body.data[4].user.id)
    const rows = (one: TestApp) => one.http.get('/users?sort=created_at').then(({ text }) => text)
    expect(withoutIds(await rows(together))).toBe(withoutIds(await rows(alone)))
    const digests = 'SELECT email, password_digest IS NULL AS none FROM users ORDER BY email'
    expect(await selectRows(together.databaseUrl, digests)).toEqual(
      await selectRows(alone.databaseUrl, digests),
    )
    for (const [email, password] of [
      ['ann@x.co', 'correct horse'],
      ['zoe@x.co', '😀'.repeat(128)],
    ]) {
      const user = { email, password }
      await together.http.post('/password-verifications').send({ user }).expect(200)
    }
  })

  test('has no headers of one user, and its line in the log has how many were made', async () => {
    const requestId = 'many-1'
    const users = [...newUsers(2), {}]
    const { headers, text } = await post(app, users).set('X-Request-Id', requestId).expect(200)
    for (const name of ['etag', 'location', 'idempotency-replayed', 'preference-applied']) {
      expect(headers).not.toHaveProperty(name)
    }
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    expect(text).toMatch(/^\{"data":\[\{"status":201,"user":\{"id":/)
    const line = await until(() => app.logLines.find(one => one.requestId === requestId))
    expect(line).toMatchObject({ users: 2, status: 200 })
  })

  test.each<[object, string[]]>([
    [{ users: [] }, [RANGE]],
    [{ users: Array(101).fill(newUserBody().user) }, [RANGE]],
    [{ users: null }, [NO_ARRAY]],
    [{ users: newUserBody().user }, [NO_ARRAY]],
    [{ users: '[]' }, [NO_ARRAY]],
    [{ users: newUsers(1), user: newUserBody().user }, [BESIDE]],
    [{ user: null, users: newUsers(1) }, [BESIDE]],
    [{ user: 1, users: [] }, [RANGE, BESIDE]],
    [{ user: newUserBody().user, users: null }, [NO_ARRAY, BESIDE]],
  ])('rejects %j', async (body, messages) => {
    const before = await countUsers(app)
    const { status, body: error } = await app.http.post('/users').send(body)
    expect(status).toBe(422)
    expect(error).toEqual({
      ...{ message: 'Validation failed', resource: 'User', code: 422, status: false },
      ...{ reason: 'validation_failed', errors: { users: messages } },
    })
    const accept = { Accept: 'application/problem+json' }
    const problem = await app.http.post('/users').set(accept).send(body).expect(422)
    expect(problem.body.errors).toEqual(messages.map(detail => ({ detail, pointer: '#/users' })))
    expect(await countUsers(app)).toBe(before)
  })

  test('takes 1 and 100 users, ignores other keys, and gives ids that grow in their order', async () => {
    const one = await app.http
      .post('/users')
      .send({ users: newUsers(1), usr: 1 })
      .expect(200)
    expect(one.body.data).toMatchObject([{ status: 201 }])
    const emails = Array.from({ length: 100 }, (_, nth) => `${(nth * 37) % 100}-order@x.co`)
    const { body } = await post(
      app,
      emails.map(email => ({ name: 'N', email })),
    ).expect(200)
    const users = body.data.map(({ user }: { user: { id: number; email: string } }) => user)
    expect(users.map(({ email }: { email: string }) => email)).toEqual(emails)
    const ids = users.map(({ id }: { id: number }) => id)
    expect(ids).toEqual(ids.toSorted((a: number, b: number) => a - b))
    const found = await app.http.get(`/users?id=${ids.join()}&per_page=1000`).expect(200)
    expect(found.body).toEqual(users)
  })

  test('with an Idempotency-Key is 400 with the reason, also if the rest is wrong', async () => {
    const before = await countUsers(app)
    for (const users of [newUsers(2), null]) {
      const { body } = await post(app, users).set('Idempotency-Key', 'key-of-many').expect(400)
      expect(body).toMatchObject({
        reason: 'idempotency_key_malformed',
        message: 'Idempotency-Key is for one user, and cannot be sent with users',
      })
    }
    expect(await countUsers(app)).toBe(before)
  })

  test('makes each address once, of many requests at once with the same users', async () => {
    const users = newUsers(30)
    const answers = await Promise.all(
      [users, users.toReversed(), users, users.toReversed()].map(some => post(app, some)),
    )
    const made = answers.flatMap(({ body }) =>
      body.data.filter(({ status }: { status: number }) => status === 201),
    )
    expect(made).toHaveLength(30)
    for (const { body } of answers) expect(body.data).toHaveLength(30)
  })

  test('with the most users and the least MAX_WAITING_PASSWORDS all are made, and what does not fit meanwhile is 503 as a whole', async () => {
    const small = await openTestApp({
      env: { MAX_WAITING_PASSWORDS: '100', MANAGEMENT_PORT: '0' },
      users: [newUserBody({ email: 'ann@x.co' })],
    })
    const fields = { password: 'correct horse' }
    const all = post(small, newUsers(100, fields)).then(({ body }) => body.data)
    await until(async () => (await waitingPasswords(small)) > 50)
    const { body, headers } = await post(small, newUsers(99, fields)).expect(503)
    expect([body.reason, headers['retry-after']]).toEqual(['overloaded', '5'])
    expect(await countUsers(small)).toBe(1)
    const user = { email: 'ann@x.co', password: 'correct horse' }
    const logins = await Promise.all(
      Array.from({ length: 100 }, () => small.http.post('/password-verifications').send({ user })),
    )
    expect(logins.find(({ status }) => status === 503)?.body.reason).toBe('overloaded')
    expect(await all).toEqual(Array(100).fill(expect.objectContaining({ status: 201 })))
  })

  test('lets single creates have their turns between its passwords', async () => {
    const busy = await openTestApp({
      env: { MAX_WAITING_PASSWORDS: '2000', MANAGEMENT_PORT: '0' },
    })
    const fields = { password: 'correct horse' }
    let ended = 0
    const batches = Promise.all(
      Array.from({ length: 2 }, () => post(busy, newUsers(25, fields)).then(() => ended++)),
    )
    await until(async () => (await waitingPasswords(busy)) > 40)
    for (let single = 0; single < 3; single++) {
      await busy.http.post('/users').send(newUserBody(fields)).expect(201)
    }
    expect(ended).toBe(0)
    await batches
  })
})

async function createSome(count: number, { http } = app): Promise<number[]> {
  const { body } = await post({ http }, newUsers(count)).expect(200)
  return body.data.map(({ user }: { user: { id: number } }) => user.id)
}

/** Lets the database refuse to delete the second user. */
const REFUSE_SECOND = byEngine({
  sqlite: `CREATE TRIGGER refuse BEFORE DELETE ON users WHEN old.id = 2 BEGIN SELECT raise(ABORT, 'no'); END`,
  postgres: `
    CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$;
    CREATE TRIGGER refuse BEFORE DELETE ON users FOR EACH ROW WHEN (old.id = 2) EXECUTE FUNCTION refuse()`,
})

const answerOf = (...entries: readonly (readonly [id: number, status: number])[]) => ({
  data: entries.map(([id, status]) => ({ id, status })),
})

describe('DELETE /users?id=…', () => {
  test('deletes users in the order sent, in each form of a list, and an id once', async () => {
    const [a = 0, b = 0, c = 0, d = 0, kept = 0] = await createSome(5)
    const path = `/users?id=${c},${a}&id[]=${b}&id=${a}&id=999999&id%5B%5D=${d}`
    const { body, headers } = await app.http.delete(path).expect(200)
    expect(body).toEqual(answerOf([c, 204], [a, 204], [b, 204], [999_999, 404], [d, 204]))
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    const again = await app.http.delete(`/users?id=${a},${kept}`).expect(200)
    expect(again.body).toEqual(answerOf([a, 404], [kept, 204]))
    expect((await app.http.get(`/users?id=${a},${b},${c},${d},${kept}`)).body).toEqual([])
  })

  test('says 404 of an id that is too large for a user, as it was sent', async () => {
    const { text } = await app.http.delete('/users?id=9007199254740993').expect(200)
    expect(text).toBe('{"data":[{"id":9007199254740993,"status":404}]}')
  })

  const RULE = 'must be 1 to 100 ids, positive integers separated by commas'
  const TOO_MANY = Array.from({ length: 101 }, (_, index) => index + 1).join()

  test.each([
    ['', { id: RULE }],
    ['?id=', { id: 'is empty' }],
    ['?id=0', { id: RULE }],
    ['?id=1,a', { id: RULE }],
    [`?id=${TOO_MANY}`, { id: RULE }],
    ['?id=%ff', { id: 'cannot be decoded' }],
    ['?ids=1', { id: RULE, ids: 'is unknown' }],
    ['?id=ID&email=a@x.co', { email: 'is unknown' }],
    ['?id=ID&sort=id&q=a', { sort: 'is unknown', q: 'is unknown' }],
  ])('answers 400 to %s, and deletes nothing', async (query, errors) => {
    const [id] = await createSome(1)
    const { body } = await app.http.delete(`/users${query.replace('ID', `${id}`)}`).expect(400)
    expect(body.reason).toBe('query_invalid')
    const messages = Object.entries(errors).map(([name, message]) => [name, [message]])
    expect(body.errors).toEqual(Object.fromEntries(messages))
    await app.http.get(`/users/${id}`).expect(200)
  })

  test.each(['If-Match', 'If-None-Match'])('answers 400 to it with %s', async header => {
    const [id] = await createSome(1)
    const { body } = await app.http.delete(`/users?id=${id}`).set(header, '*').expect(400)
    expect(body.errors).toEqual({ [header.toLowerCase()]: ['is for one user'] })
    await app.http.get(`/users/${id}`).expect(200)
  })

  test('is one line in the log, with how many were deleted', async () => {
    const { http, logLines } = await openTestApp()
    const ids = await createSome(3, { ...app, http })
    const sent = http.delete(`/users?id=${ids},999`).set('X-Request-Id', 'many')
    await sent.expect(200)
    const line = await until(() => logLines.find(({ requestId }) => requestId === 'many'))
    expect(line).toMatchObject({ method: 'DELETE', route: '/users', status: 200, users: 3 })
    expect(line).not.toHaveProperty('user')
  })

  test('deletes none if one cannot be deleted', async () => {
    const { http, databaseUrl } = await openTestApp()
    const ids = await createSome(3, { ...app, http })
    await executeSql(databaseUrl, REFUSE_SECOND)
    expect((await http.delete(`/users?id=${ids}`)).status).toBeGreaterThanOrEqual(500)
    expect((await http.get(`/users?id=${ids}`)).body).toHaveLength(3)
  })

  test('of two at once of the same users, each user is deleted by one', async () => {
    const ids = await createSome(50)
    const one = app.http.delete(`/users?id=${ids}`)
    const other = app.http.delete(`/users?id=${ids.toReversed()}`)
    const answers = (await Promise.all([one, other])).flatMap(({ body }) => body.data)
    const deleted = answers.filter(({ status }) => status === 204).map(({ id }) => id)
    expect(deleted.toSorted((a, b) => a - b)).toEqual(ids)
    expect(answers).toHaveLength(100)
  })
})

test('a limit counts as many deletes as ids, the filter one request, and what does not fit deletes none', async () => {
  const limited = await openLimitedApp({
    rateLimits: [{ name: 'deletes', to: 5, within: '1 minute', only: ['delete'] }],
    throttle: [{ name: 'all', limit: 3, period: '1 hour', method: 'DELETE' }],
  })
  const ids = await createSome(6, { ...app, http: limited.http })
  const [a, b, c, d] = ids
  const first = await limited.ask(`DELETE /users?id=${a},${b},${a},999`).expect(200)
  expect(first.headers.ratelimit).toMatch(/"deletes"; r=2;/)
  const { headers } = await limited.ask(`DELETE /users?id=${ids.slice(2, 5)}`).expect(429)
  expect(headers).toHaveProperty('retry-after')
  expect((await limited.http.get(`/users?id=${ids}`)).body).toHaveLength(4)
  await limited.ask(`DELETE /users/${c}`).expect(429)
  // The throttle has counted each request once.
  const { body } = await limited.ask(`DELETE /users/${d}`).expect(429)
  expect(body.reason).toBe('rate_limited')
  limited.clock.advance(61 * 60_000)
  const tooMany = await limited.ask(`DELETE /users?id=${ids}`).expect(429)
  expect(tooMany.headers).not.toHaveProperty('retry-after')
})
