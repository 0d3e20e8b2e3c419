import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { selectRows } from '../support/sql.ts'

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

/** For tests that only look at users of their own. */
const app = shareTestApp()

async function create({ http }: TestApp, fields: Record<string, unknown> = {}) {
  const response = await http.post('/users').send(newUserBody(fields))
  expect(response.status).toBe(201)
  return response.body
}

/** The stored digest of a password, which no response shows. */
async function digestOf({ id }: { readonly id: number }, { databaseUrl }: TestApp = app) {
  const [row] = await selectRows(databaseUrl, `SELECT password_digest FROM users WHERE id = ${id}`)
  return row?.password_digest
}

describe('POST /users', () => {
  test('answers 201, the user with its fields in order, and Location', async () => {
    const { http } = await openTestApp()
    const body = newUserBody({ name: 'Ann', email: 'Ann@x.co', password: 'correct horse' })
    const response = await http.post('/users').send(body)
    expect(response.status).toBe(201)
    expect(Object.keys(response.body)).toEqual(['id', 'name', 'email', 'created_at', 'updated_at'])
    expect(response.body).toMatchObject({ id: 1, name: 'Ann', email: 'Ann@x.co' })
    expect(response.body.created_at).toMatch(TIMESTAMP)
    expect(response.body.updated_at).toBe(response.body.created_at)
    expect(response.headers.location).toBe('/users/1')
    expect(response.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(response.headers['cache-control']).toBe('private, no-cache')
  })

  test('ignores attributes and keys that it does not know', async () => {
    const { user } = newUserBody({ id: 777, created_at: 'x', admin: true, password_digest: '$x' })
    const response = await app.http.post('/users').send({ user, id: 778, token: 'y' })
    expect(response.status).toBe(201)
    expect(response.body.id).toBeLessThan(777)
    expect(response.body.created_at).toMatch(TIMESTAMP)
    expect(Object.keys(response.body)).toHaveLength(5)
    expect(await digestOf(response.body)).toBeNull()
  })

  test('lets one of twenty with one address through, and answers 422 to the others', async () => {
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        app.http.post('/users').send(newUserBody({ email: index % 2 ? 'A@one.co' : 'a@ONE.co' })),
      ),
    )
    expect(responses.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const { status, body } of responses.filter(response => response.status !== 201)) {
      expect(status).toBe(422)
      expect(body.errors).toEqual({ email: ['has already been taken'] })
    }
    expect((await app.http.get('/users?email=a@one.co')).body).toHaveLength(1)
  })

  test('keeps the password as an Argon2id digest only, and none for null', async () => {
    const digests = []
    for (const fields of [
      { password: 'correct horse' },
      { password: 'correct horse' },
      { password: null },
      {},
    ]) {
      digests.push(await digestOf(await create(app, fields)))
    }
    const [first, second, ...others] = digests
    expect(first).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
    expect(second).not.toBe(first)
    expect(others).toEqual([null, null])
  })
})

const LONG_EMAIL = `${'a'.repeat(242)}@example.com`

describe('validation', () => {
  const blank = ["can't be blank"]
  const notText = ['must be a string']
  const invalid = ['is invalid']

  test.each<[unknown, string]>([
    [{}, 'is required'],
    [null, 'is required'],
    [5, 'is required'],
    [[], 'is required'],
    [{ user: null }, 'is required'],
    [{ user: 'Ann' }, 'must be an object'],
    [{ user: [{ name: 'Ann' }] }, 'must be an object'],
    [{ user: false }, 'must be an object'],
  ])('POST and PUT /users answer 422 to the body %j', async (body, message) => {
    const { id } = await create(app)
    for (const request of [app.http.post('/users'), app.http.put(`/users/${id}`)]) {
      const response = await request.type('json').send(JSON.stringify(body))
      expect(response.status).toBe(422)
      expect(response.body).toEqual({
        message: 'Validation failed',
        resource: 'User',
        code: 422,
        status: false,
        reason: 'validation_failed',
        errors: { user: [message] },
      })
    }
  })

  test('POST /users needs name and email, PUT neither', async () => {
    const { id } = await create(app)
    const response = await app.http.post('/users').send({ user: {} })
    expect(response.status).toBe(422)
    expect(response.body.errors).toEqual({ name: blank, email: blank })
    expect((await app.http.put(`/users/${id}`).send({ user: {} })).status).toBe(200)
  })

  test.each<[string, unknown, string[]]>([
    ['name', null, blank],
    ['name', '', blank],
    ['name', ' \t\n\u3000 ', blank],
    ['name', 5, notText],
    ['name', ['Ann'], notText],
    ['name', 'a'.repeat(256), ['is too long (maximum is 255 characters)']],
    ['name', '😀'.repeat(256), ['is too long (maximum is 255 characters)']],
    ['name', 'a\u0000b', invalid],
    ['name', 'a\nb', invalid],
    ['name', 'a\u0085b', invalid],
    ['name', 'a\u202eb', invalid],
    ['name', 'a\u2066b', invalid],
    ['name', 'a\ud800b', invalid],
    [
      'name',
      `${'a'.repeat(255)}\u0007b`,
      ['is too long (maximum is 255 characters)', 'is invalid'],
    ],
    ['email', null, blank],
    ['email', '', blank],
    ['email', '  ', blank],
    ['email', { at: 'x' }, notText],
    ['email', 'ann', invalid],
    ['email', 'ann@', invalid],
    ['email', 'ann@localhost', invalid],
    ['email', 'ann@x.co\u0000', invalid],
    ['email', 'ann@x.co, bob@x.co', invalid],
    ['email', `a${LONG_EMAIL}`, ['is too long (maximum is 254 characters)']],
    ['password', 12345678, notText],
    ['password', false, notText],
    ['password', '', ['is too short (minimum is 8 characters)']],
    ['password', '1234567', ['is too short (minimum is 8 characters)']],
    ['password', '😀'.repeat(7), ['is too short (minimum is 8 characters)']],
    ['password', '1'.repeat(129), ['is too long (maximum is 128 characters)']],
    ['password', '12345678\u0000', invalid],
    ['password', '12345678\udfff', invalid],
  ])('POST and PUT /users reject %s %j', async (field, value, messages) => {
    const { id } = await create(app)
    const post = await app.http.post('/users').send(newUserBody({ [field]: value }))
    const put = await app.http.put(`/users/${id}`).send({ user: { [field]: value } })
    for (const { status, body } of [post, put]) {
      expect(status).toBe(422)
      expect(body.errors).toEqual({ [field]: messages })
    }
  })

  test.each<[string, unknown, unknown]>([
    ['name', '  Ann \n', 'Ann'],
    ['name', 'Zoe\u0308', 'Zoë'],
    ['name', 'a'.repeat(255), 'a'.repeat(255)],
    ['name', '😀'.repeat(255), '😀'.repeat(255)],
    ['name', "Robert'); DROP TABLE users;--", "Robert'); DROP TABLE users;--"],
    ['email', ' Ann@Example.com ', 'Ann@Example.com'],
    ['email', LONG_EMAIL, LONG_EMAIL],
  ])('POST /users takes %s %j as %j', async (field, value, kept) => {
    const user = await create(app, { [field]: value })
    expect(user[field]).toBe(kept)
    expect((await app.http.get(`/users/${user.id}`)).body[field]).toBe(kept)
  })

  test.each(['12345678', '😀'.repeat(8), '1'.repeat(128), '  spaces  ', '😀'.repeat(128)])(
    'POST /users takes the password %j',
    async password => {
      await create(app, { password })
    },
  )

  test('PASSWORD_MIN_LENGTH sets the minimum length, and the message has it', async () => {
    const strict = await openTestApp({ env: { PASSWORD_MIN_LENGTH: '12' } })
    const response = await strict.http.post('/users').send(newUserBody({ password: '12345678901' }))
    expect(response.body.errors).toEqual({ password: ['is too short (minimum is 12 characters)'] })
    await create(strict, { password: '123456789012' })
  })

  test('POST and PUT /users name every wrong field at once, also a taken e-mail', async () => {
    await create(app, { email: 'taken@x.co' })
    const { id } = await create(app)
    for (const [email, message] of [
      ['x', 'is invalid'],
      ['Taken@x.co', 'has already been taken'],
    ]) {
      const user = { name: '', email, password: 'short' }
      const errors = {
        name: blank,
        email: [message],
        password: ['is too short (minimum is 8 characters)'],
      }
      const post = await app.http.post('/users').send({ user })
      const put = await app.http.put(`/users/${id}`).send({ user })
      for (const { status, text } of [post, put]) {
        expect(status).toBe(422)
        expect(text).toContain(JSON.stringify(errors))
      }
    }
  })

  test('PUT /users/{id} does not treat the user’s own e-mail as taken', async () => {
    const { id, email } = await create(app)
    const response = await app.http.put(`/users/${id}`).send({ user: { name: '', email } })
    expect(response.body.errors).toEqual({ name: blank })
  })
})

describe('GET', () => {
  test('/users answers a top-level array of users by id', async () => {
    const app = await openTestApp()
    expect((await app.http.get('/users')).body).toEqual([])
    const users = [await create(app), await create(app)]
    const response = await app.http.get('/users')
    expect(response.status).toBe(200)
    expect(response.body).toEqual(users)
  })

  test('/users/{id} answers the user, with the percent-encoded id too', async () => {
    const app = await openTestApp()
    const user = await create(app)
    for (const path of [`/users/${user.id}`, '/users/%31', `/users/${user.id}?x=%zz`]) {
      const response = await app.http.get(path)
      expect(response.status).toBe(200)
      expect(response.body).toEqual(user)
    }
  })
})

describe.each(['put', 'patch'] as const)('%s /users/{id}', method => {
  const clock = createFakeClock()
  const app = shareTestApp({ now: clock.now })
  const digest = (user: { readonly id: number }) => digestOf(user, app)

  /** Creates a user a second later, and returns it and what changes it. */
  async function opened(fields: Record<string, unknown> = {}) {
    clock.advance(1000)
    const user = await create(app, fields)
    const change = async (changed: object) =>
      app.http[method](`/users/${user.id}`).send({ user: changed })
    const nowAfter = (ms: number) => new Date(Date.parse(user.created_at) + ms).toISOString()
    return { user, change, nowAfter }
  }

  test('changes the fields sent and updated_at, and answers 200', async () => {
    const { user, change, nowAfter } = await opened()
    clock.advance(1500)
    const response = await change({ name: 'Bea' })
    expect(response.status).toBe(200)
    expect(response.body).toEqual({ ...user, name: 'Bea', updated_at: nowAfter(1500) })
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(response.body)
  })

  test('repeated leaves the same result', async () => {
    const { user, change } = await opened()
    const body = newUserBody({ password: 'correct horse' })
    const first = await change(body.user)
    const before = await digest(user)
    clock.advance(1000)
    const second = await change(body.user)
    expect(second.status).toBe(200)
    expect(second.text).toBe(first.text)
    expect(await digest(user)).toEqual(before)
  })

  test('changes updated_at with the password, and when null removes it', async () => {
    const { user, change, nowAfter } = await opened({ password: 'correct horse' })
    for (const [password, ms] of [
      ['battery staple', 1],
      [null, 2],
      [null, 2],
    ] as const) {
      clock.advance(1)
      expect((await change({ password })).body.updated_at).toBe(nowAfter(ms))
    }
    expect(await digest(user)).toBeNull()
  })

  test('of a new password, twice at once, changes updated_at once', async () => {
    const { change } = await opened({ password: 'correct horse' })
    const answers = await Promise.all([
      change({ password: 'battery staple' }),
      change({ password: 'battery staple' }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(answers[0]?.text).toBe(answers[1]?.text)
  })

  test('with the stored password succeeds, also during a change of the password', async () => {
    let stored = 'password 0'
    let names = 0
    const { change } = await opened({ password: stored })
    for (let round = 1; round <= 3; round++) {
      const other = `password ${round}`
      let isOver = false
      const changing = change({ password: other }).finally(() => {
        isOver = true
      })
      // One after another until the end of the change, so that it ends while one of them compares passwords.
      const answers = []
      while (!isOver) answers.push(await change({ name: `Name ${names++}`, password: stored }))
      const changed = await changing
      answers.push(changed)
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
      // The request with the latest updated_at is the one whose password is stored.
      const last = answers
        .map(({ body }) => body.updated_at)
        .sort()
        .at(-1)
      if (changed.body.updated_at === last) stored = other
      expect((await change({ password: stored })).body.updated_at).toBe(last)
    }
  })

  test('makes updated_at later although the clock goes back', async () => {
    const { user, change } = await opened()
    let before = user.updated_at
    for (const name of ['Bea', 'Cid', 'Dan']) {
      clock.advance(-3_600_000)
      const { body } = await change({ name })
      expect(body.updated_at > before).toBe(true)
      before = body.updated_at
    }
  })

  test('answers 422 for the e-mail of another user, and changes nothing', async () => {
    await create(app, { email: 'ann@x.co' })
    const { user, change } = await opened()
    const response = await change({ name: 'Bea', email: 'Ann@x.co' })
    expect(response.status).toBe(422)
    expect(response.body.errors).toEqual({ email: ['has already been taken'] })
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(user)
  })

  test('ignores attributes that it does not know', async () => {
    const { user, change } = await opened()
    const response = await change({ id: 9, created_at: 'x', updated_at: 'x', version: 9 })
    expect(response.status).toBe(200)
    expect(response.body).toEqual(user)
  })
})

test('DELETE /users/{id} answers 204 without a body, then 404, deletes one user, and frees no id', async () => {
  const app = await openTestApp()
  const kept = await create(app)
  const { id } = await create(app)
  const response = await app.http.delete(`/users/${id}`)
  expect(response.status).toBe(204)
  expect(response.text).toBe('')
  expect(response.headers).not.toHaveProperty('content-type')
  const again = await app.http.delete(`/users/${id}`)
  expect(again.status).toBe(404)
  expect(again.body.resource).toBe('User')
  expect((await app.http.get('/users')).body).toEqual([kept])
  expect((await create(app)).id).toBe(id + 1)
})
