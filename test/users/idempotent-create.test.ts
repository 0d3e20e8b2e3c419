import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { selectRows } from '../support/sql.ts'

const DAY_MS = 24 * 3_600_000

let serial = 0

function newKey(): string {
  serial++
  return `key-${serial}-5f6d9a`
}

function post({ http }: Pick<TestApp, 'http'>, key: string, body: object) {
  return http.post('/users').set('Idempotency-Key', key).send(body)
}

async function userCount({ http }: Pick<TestApp, 'http'>): Promise<number> {
  const { headers } = await http.get('/users?per_page=1&count=true')
  return Number(headers['x-total-count'])
}

/** For tests that only use keys of their own. */
const app = shareTestApp()

describe('POST /users with an Idempotency-Key', () => {
  test('repeats the first answer, and creates nothing', async () => {
    const key = newKey()
    const body = newUserBody({ password: 'correct horse' })
    const first = await post(app, key, body)
    const count = await userCount(app)
    expect(first.status).toBe(201)
    expect(first.headers).not.toHaveProperty('idempotency-replayed')
    await app.http.put(first.headers.location ?? '').send({ user: { name: 'Changed since' } })
    for (let repeat = 0; repeat < 2; repeat++) {
      const again = await post(app, key, body)
      expect(again.status).toBe(201)
      expect(again.text).toBe(first.text)
      expect(again.headers['idempotency-replayed']).toBe('true')
      for (const name of ['location', 'etag', 'content-type', 'content-length', 'cache-control']) {
        expect(again.headers[name]).toBe(first.headers[name])
      }
    }
    expect(await userCount(app)).toBe(count)
  })

  test('treats bodies with the same JSON value as the same', async () => {
    const key = newKey()
    const send = (text: string) =>
      app.http.post('/users').set('Idempotency-Key', key).type('json').send(text)
    expect(
      (await send('{"user":{"name":"Ann","email":"same@x.co"},"n":[1,{"a":1,"b":2}]}')).status,
    ).toBe(201)
    const same = await send(
      ' {"n":[1.0,{"b":2,"a":1}],\n"user":{"email":"same@x.co","name":"\\u0041nn"}}',
    )
    expect(same.headers['idempotency-replayed']).toBe('true')
  })

  test('answers 422 to any other body', async () => {
    const key = newKey()
    const user = { name: 'Ann', email: 'ann@x.co', password: 'correct horse' }
    const { password: _, ...withoutPassword } = user
    await post(app, key, { user })
    const count = await userCount(app)
    for (const body of [
      { user: { ...user, name: 'Bea' } },
      { user: { ...user, password: 'battery staple' } },
      { user: withoutPassword },
      { user: { ...user, x: 1 } },
      { user: { ...user, name: '' } },
      {},
    ]) {
      const response = await post(app, key, body)
      expect([body, response.status]).toEqual([body, 422])
      expect(response.body).not.toHaveProperty('errors')
      expect(response.body.message).toMatch(/Idempotency-Key/)
    }
    expect(await userCount(app)).toBe(count)
  })

  test('stores no error, so that a corrected body may use the key again', async () => {
    const key = newKey()
    const body = newUserBody()
    expect((await post(app, key, { user: { ...body.user, name: '' } })).status).toBe(422)
    const created = await post(app, key, body)
    expect(created.status).toBe(201)
    expect(created.headers).not.toHaveProperty('idempotency-replayed')
    const taken = newKey()
    expect((await post(app, taken, body)).status).toBe(422)
    expect((await post(app, taken, newUserBody())).status).toBe(201)
  })

  test('makes one user of twenty at once, and answers 409 or the same to the others', async () => {
    const key = newKey()
    const body = newUserBody({ password: 'correct horse' })
    const count = await userCount(app)
    const responses = await Promise.all(Array.from({ length: 20 }, () => post(app, key, body)))
    const isNew = responses.filter(
      ({ status, headers }) => status === 201 && !headers['idempotency-replayed'],
    )
    expect(isNew).toHaveLength(1)
    for (const { status, headers, body: answer } of responses) {
      expect([201, 409]).toContain(status)
      if (status === 201) expect(answer).toEqual(isNew[0]?.body)
      else expect(headers['retry-after']).toMatch(/^\d+$/)
    }
    expect(responses.some(({ status }) => status === 409)).toBe(true)
    expect(await userCount(app)).toBe(count + 1)
  })

  test('is in use from the first request on, even if a later one would finish sooner', async () => {
    const app = await openTestApp()
    const message = (body: object) => {
      const text = JSON.stringify(body)
      return `POST /users HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
    }
    const slow = newUserBody({ password: 'correct horse' })
    const exchanges = [sendRaw(app.port, message(slow)), sendRaw(app.port, message(newUserBody()))]
    const answers = await Promise.all(exchanges.map(exchange => exchange.answers(1)))
    for (const { socket } of exchanges) socket.destroy()
    const statuses = answers.flat().map(({ status }) => status)
    // Two connections: on a busy machine or with several processes, either may be the first.
    expect(statuses.toSorted()).toEqual([201, 409])
  })

  test('creates one user when two processes use it at once', async () => {
    const other = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    for (let round = 0; round < 3; round++) {
      const key = newKey()
      const body = newUserBody()
      const before = await userCount(app)
      const responses = await Promise.all([post(app, key, body), post(other, key, body)])
      for (const { status } of responses) expect([201, 409]).toContain(status)
      expect(responses.some(({ status }) => status === 201)).toBe(true)
      expect(await userCount(app)).toBe(before + 1)
    }
  })

  test('answers 410 to any body once the user is deleted', async () => {
    const key = newKey()
    const body = newUserBody()
    const count = await userCount(app)
    const { headers } = await post(app, key, body)
    await app.http.delete(headers.location ?? '')
    for (const repeat of [body, newUserBody()]) {
      const response = await post(app, key, repeat)
      expect(response.status).toBe(410)
      expect(response.body).toMatchObject({ resource: 'User', code: 410, status: false })
    }
    expect(await userCount(app)).toBe(count)
  })

  test.each([-3_600_000, 2 * DAY_MS])(
    'keeps a key for 24 hours although the clock is moved by %d ms',
    async step => {
      const wall = createFakeClock()
      const monotonic = createFakeClock(5000.5)
      const app = await openTestApp({ now: wall.now, monotonicNow: monotonic.now })
      const [key, body] = [newKey(), newUserBody()]
      const first = await post(app, key, body)
      wall.advance(step)
      // Adding another key deletes expired ones.
      await post(app, newKey(), newUserBody())
      monotonic.advance(DAY_MS - 1)
      expect((await post(app, key, body)).text).toBe(first.text)
      monotonic.advance(1)
      expect((await post(app, key, body)).status).toBe(422)
    },
  )

  test('forgets a key after 24 hours, and not before', async () => {
    const clock = createFakeClock()
    const app = await openTestApp({ now: clock.now })
    const key = newKey()
    const body = newUserBody()
    await post(app, key, body)
    clock.advance(DAY_MS - 1)
    expect((await post(app, key, body)).headers['idempotency-replayed']).toBe('true')
    clock.advance(1)
    expect((await post(app, key, newUserBody())).status).toBe(201)
    expect(await userCount(app)).toBe(2)
  })

  test('keeps only few expired keys', async () => {
    const clock = createFakeClock()
    const app = await openTestApp({ now: clock.now })
    for (let count = 0; count < 10; count++) await post(app, newKey(), newUserBody())
    clock.advance(DAY_MS)
    for (let count = 0; count < 10; count++) await post(app, newKey(), newUserBody())
    const kept = await selectRows(app.databaseUrl, 'SELECT user_id FROM idempotency_keys')
    expect(kept).toHaveLength(10)
  })

  test('knows its keys after a restart', async () => {
    const app = await openTestApp()
    const key = newKey()
    const body = newUserBody()
    const first = await post(app, key, body)
    await app.stop()
    const again = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    const response = await post(again, key, body)
    expect(response.text).toBe(first.text)
    expect(response.headers['idempotency-replayed']).toBe('true')
  })

  test('stores nothing by which a password could be guessed faster than by its digest', async () => {
    const app = await openTestApp()
    const secret = 'correct horse'
    const { user } = newUserBody()
    await post(app, newKey(), { user: { ...user, password: secret } })
    // Clients of other services send the header twice, or with other methods.
    await post(app, newKey(), { ...newUserBody({ password_confirmation: secret }) })
    await post(app, newKey(), { ...newUserBody(), password: secret })
    const keys = await selectRows(app.databaseUrl, 'SELECT fingerprint FROM idempotency_keys')
    expect(keys).toHaveLength(3)
    for (const { fingerprint } of keys) expect(fingerprint).toMatch(/^\$argon2id\$/)
  })

  test.each([
    ['bare', 'abc', '"abc"'],
    ['with a quote inside', 'a"b\\c', '"a\\"b\\\\c"'],
    ['of 255 characters', '~'.repeat(255), `"${'~'.repeat(255)}"`],
  ])('treats a key %s like the quoted string', async (_name, bare, quoted) => {
    const body = newUserBody()
    expect((await post(app, bare, body)).status).toBe(201)
    expect((await post(app, quoted, body)).headers['idempotency-replayed']).toBe('true')
  })

  test.each([
    ['nothing', ''],
    ['spaces', 'a b'],
    ['256 characters', 'x'.repeat(256)],
    ['256 quoted characters', `"${'x'.repeat(256)}"`],
    ['an empty string', '""'],
    ['half a string', '"abc'],
    ['more than a string', '"abc"d'],
    ['a strange escape', '"a\\bc"'],
    ['no ASCII', 'k\u00e9y'],
  ])('answers 400 to a key of %s', async (_name, key) => {
    const count = await userCount(app)
    for (const body of [newUserBody(), {}]) {
      const response = await post(app, key, body)
      expect(response.status).toBe(400)
      expect(response.body).toMatchObject({ resource: 'User', code: 400, status: false })
    }
    expect(await userCount(app)).toBe(count)
  })

  test('answers 400 to a key given twice', async () => {
    const headers: [string, string][] = [
      ['Content-Type', 'application/json'],
      ['Idempotency-Key', 'a'],
      ['Idempotency-Key', 'a'],
    ]
    const body = JSON.stringify(newUserBody())
    const response = await fetch(`${app.url}/users`, { method: 'POST', headers, body })
    expect(response.status).toBe(400)
  })

  test('accepts a body nested deeper than the call stack allows', async () => {
    const key = newKey()
    const { user } = newUserBody()
    const deep = `${'['.repeat(40_000)}${']'.repeat(40_000)}`
    const text = `{"user":${JSON.stringify(user)},"deep":${deep}}`
    const send = () => app.http.post('/users').set('Idempotency-Key', key).type('json').send(text)
    expect((await send()).status).toBe(201)
    expect((await send()).headers['idempotency-replayed']).toBe('true')
  })

  test('is ignored for other methods', async () => {
    const { headers } = await post(app, newKey(), newUserBody())
    const path = headers.location ?? ''
    const put = app.http.put(path).set('Idempotency-Key', 'a b')
    expect((await put.send({ user: { name: 'Bea' } })).status).toBe(200)
    expect((await app.http.delete(path).set('Idempotency-Key', '')).status).toBe(204)
  })
})
