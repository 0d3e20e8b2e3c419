import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { byEngine } from '../support/engine.ts'
import { openLimitedApp } from '../support/limited-app.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'
import { until } from '../support/until.ts'

const app = shareTestApp()

async function createSome(count: number, { http } = app): Promise<number[]> {
  const users = Array.from({ length: count }, () => newUserBody().user)
  const { body } = await http.post('/users').send({ users }).expect(200)
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
