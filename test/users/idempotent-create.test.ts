import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { countUsers } from '../support/many-users.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { selectRows } from '../support/sql.ts'
import { untilPasses } from '../support/until.ts'

const DAY_MS = 24 * 3_600_000

const REPLAYED = 'idempotency-replayed'

let serial = 0

function newKey(): string {
  serial++
  return `key-${serial}-5f6d9a`
}

/** Sends a body, or the text of one. */
function post({ http }: Pick<TestApp, 'http'>, key: string, body: object | string) {
  return http.post('/users').set('Idempotency-Key', key).type('json').send(body)
}

/** For tests that only use keys of their own. */
const app = shareTestApp()

describe('POST /users with an Idempotency-Key', () => {
  test('repeats the first answer, and creates nothing', async () => {
    const key = newKey()
    const body = newUserBody({ password: 'correct horse' })
    const first = await post(app, key, body).expect(201)
    const count = await countUsers(app)
    expect(first.headers).not.toHaveProperty(REPLAYED)
    await app.http.put(first.headers.location ?? '').send({ user: { name: 'Changed since' } })
    for (let repeat = 0; repeat < 2; repeat++) {
      const again = await post(app, key, body).expect(201)
      expect(again.text).toBe(first.text)
      expect(again.headers[REPLAYED]).toBe('true')
      for (const name of ['location', 'etag', 'content-type', 'content-length', 'cache-control']) {
        expect(again.headers[name]).toBe(first.headers[name])
      }
    }
    expect(await countUsers(app)).toBe(count)
  })

  test('treats bodies with the same JSON value as the same', async () => {
    const key = newKey()
    const text = '{"user":{"name":"Ann","email":"same@x.co"},"n":[1,{"a":1,"b":2}]}'
    await post(app, key, text).expect(201)
    const same = ' {"n":[1.0,{"b":2,"a":1}],\n"user":{"email":"same@x.co","name":"\\u0041nn"}}'
    expect((await post(app, key, same)).headers[REPLAYED]).toBe('true')
  })

  test('stores no error, so that a corrected body may use the key again', async () => {
    const [key, taken] = [newKey(), newKey()]
    const body = newUserBody()
    await post(app, key, { user: { ...body.user, name: '' } }).expect(422)
    expect((await post(app, key, body).expect(201)).headers).not.toHaveProperty(REPLAYED)
    await post(app, taken, body).expect(422)
    await post(app, taken, newUserBody()).expect(201)
  })

  test('makes one user of twenty at once, and answers 409 or the same to the others', async () => {
    const key = newKey()
    const body = newUserBody({ password: 'correct horse' })
    const count = await countUsers(app)
    const responses = await Promise.all(Array.from({ length: 20 }, () => post(app, key, body)))
    const isNew = responses.filter(({ status, headers }) => status === 201 && !headers[REPLAYED])
    expect(isNew).toHaveLength(1)
    for (const { status, headers, body: answer } of responses) {
      expect([201, 409]).toContain(status)
      if (status === 201) expect(answer).toEqual(isNew[0]?.body)
      else expect(headers['retry-after']).toMatch(/^\d+$/)
    }
    expect(responses.some(({ status }) => status === 409)).toBe(true)
    expect(await countUsers(app)).toBe(count + 1)
  })

  test('answers 410 to any body once the user is deleted', async () => {
    const key = newKey()
    const body = newUserBody()
    const { headers } = await post(app, key, body)
    await app.http.delete(headers.location ?? '').expect(204)
    for (const repeat of [body, newUserBody()]) {
      const response = await post(app, key, repeat)
      expect(response.body).toMatchObject({ resource: 'User', code: 410, status: false })
    }
  })

  test.each([0, -3_600_000, 2 * DAY_MS])(
    'keeps a key for 24 hours, and not longer, although the clock is moved by %d ms',
    async step => {
      const wall = createFakeClock()
      const monotonic = createFakeClock(5000.5)
      const app = await openTestApp({ now: wall.now, monotonicNow: monotonic.now })
      const [key, body] = [newKey(), newUserBody()]
      const first = await post(app, key, body)
      wall.advance(step)
      monotonic.advance(DAY_MS - 1)
      // Adding another key deletes expired ones.
      await post(app, newKey(), newUserBody())
      expect((await post(app, key, body)).text).toBe(first.text)
      monotonic.advance(1)
      expect((await post(app, key, newUserBody()).expect(201)).headers).not.toHaveProperty(REPLAYED)
    },
  )

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
    const [key, body] = [newKey(), newUserBody()]
    const first = await post(app, key, body)
    await app.stop()
    const again = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    const { text, headers } = await post(again, key, body)
    expect([text, headers[REPLAYED]]).toEqual([first.text, 'true'])
  })

  test('stores nothing by which a password could be guessed faster than by its digest', async () => {
    const app = await openTestApp()
    const password = 'correct horse'
    // Clients of other services send it twice, or in other places.
    const bodies = [
      newUserBody({ password }),
      newUserBody({ password_confirmation: password }),
      { ...newUserBody(), password },
    ]
    for (const body of bodies) await post(app, newKey(), body).expect(201)
    const keys = await selectRows(
      app.databaseUrl,
      `SELECT fingerprint, password_digest AS digest
       FROM idempotency_keys JOIN users ON id = user_id ORDER BY id`,
    )
    const expected = keys.map(({ digest }) => `:${digest ?? ''}`)
    expect(expected[0]).toMatch(/^:\$argon2id\$/)
    const stored = keys.map(({ fingerprint }) => String(fingerprint).slice(64))
    expect(stored[0]).toBe(expected[0])
    for (const index of [1, 2]) {
      expect(stored[index]).toMatch(/^:[^:]*:\$argon2id\$[^:]*$/)
      expect(stored[index]?.startsWith(`${expected[index]}:`)).toBe(true)
    }
  })

  test('of a key similar to a used one is another key', async () => {
    const key = 'f47ac10b-58cc-4372-a567-0e02b2c3d479'
    const body = newUserBody({ password: 'correct horse' })
    const { text } = await post(app, key, body).expect(201)
    for (const other of [
      ...[key.toUpperCase(), key.slice(0, -1), `${key}%00`, `"${key}x"`, `${key},`],
    ]) {
      const { headers, body: refusal } = await post(app, other, body).expect(422)
      expect(headers).not.toHaveProperty(REPLAYED)
      expect(refusal.errors).toEqual({ email: ['has already been taken'] })
    }
    expect((await post(app, key, body).expect(201)).text).toBe(text)
  })

  const ROLE = '"role":"admin"'
  const PASSWORD = '"password":"correct horse"'

  test.each<[what: string, inUser: string, otherInUser: string, beside?: string, other?: string]>([
    ['a value in the user', ROLE, '"role":"guest"'],
    ['a value beside the user', ROLE, ROLE, '"n":1', '"n":"1"'],
    ['a value beside the user, or none', ROLE, ROLE, '', '"is_admin":true'],
    ['the order of a list', '"v":[1,2]', '"v":[2,1]'],
    ['an attribute more', ROLE, `${ROLE},"age":1`],
    ['an attribute less', ROLE, ''],
    ['the name', ROLE, `${ROLE},"name":"Ann "`],
    ['the case of the e-mail', ROLE, `${ROLE},"email":"EMAIL"`],
    ['a password more', ROLE, `${ROLE},${PASSWORD}`],
    ['no password', ROLE, `${ROLE},"password":null`],
    ['the password', PASSWORD, '"password":"correct horsf"'],
    ['a password less', PASSWORD, '"password":null'],
    ['a value of a user with a password', `${PASSWORD},"v":1`, `${PASSWORD},"v":2`],
  ])(
    'refuses a body in which only %s differs, without the e-mail',
    async (_what, inUser, otherInUser, beside = '', other = beside) => {
      const [key, { user }] = [newKey(), newUserBody()]
      const textOf = (inUser: string, beside: string) =>
        `{"user":{"name":"Ann","email":"${user.email}"${inUser && `,${inUser}`}}${beside && `,${beside}`}}`
      await post(app, key, textOf(inUser, beside)).expect(201)
      const repeat = await post(app, key, textOf(inUser, beside)).expect(201)
      expect(repeat.headers[REPLAYED]).toBe('true')
      const changed = textOf(otherInUser, other).replace('EMAIL', String(user.email).toUpperCase())
      for (const sent of [changed, '{}']) {
        const { body, text } = await post(app, key, sent).expect(422)
        const message = 'This Idempotency-Key was used with another body'
        expect(body).toMatchObject({ reason: 'idempotency_key_reused', message })
        expect(text).not.toContain(String(user.email))
      }
    },
  )

  test('repeats the answer also once the user has another e-mail and another password, or none', async () => {
    const key = newKey()
    const body = newUserBody({ password: 'correct horse' })
    const { text, headers } = await post(app, key, body).expect(201)
    for (const password of ['battery staple', null]) {
      const change = { user: { email: newUserBody().user.email, password } }
      await app.http.put(`${headers.location}`).send(change).expect(200)
      expect((await post(app, key, body).expect(201)).text).toBe(text)
      await post(app, key, { user: { ...body.user, password } }).expect(422)
    }
  })

  // A busy machine may take the second request first.
  test('answers 409 before it looks at the body, as long as the first request runs', {
    retry: 3,
    timeout: 30_000,
  }, async () => {
    const key = newKey()
    // Passwords wait in one queue, so these keep the first request running.
    const others = Array.from({ length: 40 }, () =>
      app.http.post('/users').send(newUserBody({ password: 'correct horse' })),
    )
    const first = [...others, post(app, key, newUserBody({ password: 'correct horse' }))]
    const answers = Promise.all(first)
    await untilPasses(() => post(app, key, {}).expect(409))
    await post(app, key, newUserBody()).expect(409)
    expect((await answers).map(({ status }) => status)).toEqual(first.map(() => 201))
  })

  test.each([
    ['with a quote inside', 'a"b\\c', '"a\\"b\\\\c"'],
    ['of 255 characters', '~'.repeat(255), `"${'~'.repeat(255)}"`],
  ])('treats a key %s like the quoted string', async (_name, bare, quoted) => {
    const body = newUserBody()
    await post(app, bare, body).expect(201)
    expect((await post(app, quoted, body)).headers[REPLAYED]).toBe('true')
  })

  test.each([
    ['nothing', ''],
    ['spaces', 'a b'],
    ['256 characters', 'x'.repeat(256)],
    ['an empty string', '""'],
    ['half a string', '"abc'],
    ['more than a string', '"abc"d'],
    ['a strange escape', '"a\\bc"'],
    ['no ASCII', 'k\u00e9y'],
  ])('answers 400 to a key of %s', async (_name, key) => {
    const count = await countUsers(app)
    const response = await post(app, key, newUserBody())
    expect(response.body).toMatchObject({ resource: 'User', code: 400, status: false })
    expect(await countUsers(app)).toBe(count)
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

  test('takes a body nested deeper than the call stack allows, in the user and beside it', async () => {
    const deep = `${'['.repeat(40_000)}${']'.repeat(40_000)}`
    for (const nest of [`"v":${deep}}}`, `"v":1},"deep":${deep}}`]) {
      const [key, { user }] = [newKey(), newUserBody()]
      const text = `{"user":{"name":"Ann","email":"${user.email}",${nest}`
      await post(app, key, text).expect(201)
      expect((await post(app, key, text).expect(201)).headers[REPLAYED]).toBe('true')
    }
    await post(app, newKey(), `{"user":{"name":${deep}}}`).expect(422)
  })

  test('is ignored for other methods', async () => {
    const { headers } = await post(app, newKey(), newUserBody())
    const path = headers.location ?? ''
    await app.http.put(path).set('Idempotency-Key', 'a b').send({ user: {} }).expect(200)
    await app.http.delete(path).set('Idempotency-Key', '').expect(204)
  })
})
