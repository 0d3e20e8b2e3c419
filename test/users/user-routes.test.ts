import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { selectRows } from '../support/sql.ts'

const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

async function created({ http }: TestApp, fields: Record<string, unknown> = {}) {
  const response = await http.post('/users').send(newUserBody(fields))
  expect(response.status).toBe(201)
  return response.body
}

/** The stored digest of a password, which no response shows. */
async function storedDigests({ databaseUrl }: TestApp): Promise<unknown[]> {
  const rows = await selectRows(databaseUrl, 'SELECT password_digest FROM users ORDER BY id')
  return rows.map(row => row.password_digest)
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
    const app = await openTestApp()
    const { user } = newUserBody({ id: 77, created_at: 'x', admin: true, password_digest: '$x' })
    const response = await app.http.post('/users').send({ user, id: 78, token: 'y' })
    expect(response.status).toBe(201)
    expect(response.body.id).toBe(1)
    expect(response.body.created_at).toMatch(TIMESTAMP)
    expect(Object.keys(response.body)).toHaveLength(5)
    expect(await storedDigests(app)).toEqual([null])
  })

  test('lets one of twenty with one address through, and answers 422 to the others', async () => {
    const { http } = await openTestApp()
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        http.post('/users').send(newUserBody({ email: index % 2 ? 'A@x.co' : 'a@X.co' })),
      ),
    )
    expect(responses.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const { status, body } of responses.filter(response => response.status !== 201)) {
      expect(status).toBe(422)
      expect(body.errors).toEqual({ email: ['has already been taken'] })
    }
    expect((await http.get('/users')).body).toHaveLength(1)
  })

  test('keeps the password as an Argon2id digest only, and none for null', async () => {
    const app = await openTestApp()
    await created(app, { password: 'correct horse' })
    await created(app, { password: 'correct horse' })
    await created(app, { password: null })
    await created(app)
    const [first, second, ...others] = await storedDigests(app)
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

  test.each<[string, unknown, Record<string, string[]>]>([
    ['an empty object', {}, { user: ['is required'] }],
    ['null', null, { user: ['is required'] }],
    ['a number', 5, { user: ['is required'] }],
    ['an array', [], { user: ['is required'] }],
    ['user null', { user: null }, { user: ['is required'] }],
    ['user a string', { user: 'Ann' }, { user: ['must be an object'] }],
    ['user an array', { user: [{ name: 'Ann' }] }, { user: ['must be an object'] }],
    ['user false', { user: false }, { user: ['must be an object'] }],
  ])('POST and PUT /users answer 422 to a body that is %s', async (_name, body, errors) => {
    const app = await openTestApp()
    const { id } = await created(app)
    for (const request of [app.http.post('/users'), app.http.put(`/users/${id}`)]) {
      const response = await request.type('json').send(JSON.stringify(body))
      expect(response.status).toBe(422)
      expect(response.body).toEqual({
        message: 'Validation failed',
        resource: 'User',
        code: 422,
        status: false,
        reason: 'validation_failed',
        errors,
      })
    }
  })

  test('POST /users needs name and email, PUT neither', async () => {
    const app = await openTestApp()
    const { id } = await created(app)
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
    const app = await openTestApp()
    const { id } = await created(app)
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
    const app = await openTestApp()
    const user = await created(app, { [field]: value })
    expect(user[field]).toBe(kept)
    expect((await app.http.get(`/users/${user.id}`)).body[field]).toBe(kept)
  })

  test.each(['12345678', '😀'.repeat(8), '1'.repeat(128), '  spaces  ', '😀'.repeat(128)])(
    'POST /users takes the password %j',
    async password => {
      await created(await openTestApp(), { password })
    },
  )

  test('PASSWORD_MIN_LENGTH sets the minimum length, and the message has it', async () => {
    const app = await openTestApp({ env: { PASSWORD_MIN_LENGTH: '12' } })
    const response = await app.http.post('/users').send(newUserBody({ password: '12345678901' }))
    expect(response.body.errors).toEqual({ password: ['is too short (minimum is 12 characters)'] })
    await created(app, { password: '123456789012' })
  })

  test('POST /users names every wrong field at once', async () => {
    const { http } = await openTestApp()
    const response = await http.post('/users').send({ user: { name: '', email: 'x', password: 1 } })
    expect(response.body.errors).toEqual({ name: blank, email: invalid, password: notText })
  })

  test('POST and PUT /users name a taken e-mail together with the other wrong fields', async () => {
    const app = await openTestApp()
    await created(app, { email: 'ann@x.co' })
    const { id } = await created(app)
    const user = { name: '', email: 'ANN@x.co', password: 'short' }
    const errors = {
      name: blank,
      email: ['has already been taken'],
      password: ['is too short (minimum is 8 characters)'],
    }
    const post = await app.http.post('/users').send({ user })
    expect(post.status).toBe(422)
    expect(post.text).toContain(JSON.stringify(errors))
    const put = await app.http.put(`/users/${id}`).send({ user })
    expect(put.body.errors).toEqual(errors)
  })

  test('PUT /users/{id} does not treat the user’s own e-mail as taken', async () => {
    const app = await openTestApp()
    const { id, email } = await created(app)
    const response = await app.http.put(`/users/${id}`).send({ user: { name: '', email } })
    expect(response.body.errors).toEqual({ name: blank })
  })
})

describe('GET', () => {
  test('/users answers a top-level array of users by id', async () => {
    const app = await openTestApp()
    expect((await app.http.get('/users')).body).toEqual([])
    const users = [await created(app), await created(app)]
    const response = await app.http.get('/users')
    expect(response.status).toBe(200)
    expect(response.body).toEqual(users)
  })

  test('/users/{id} answers the user, with the percent-encoded id too', async () => {
    const app = await openTestApp()
    const user = await created(app)
    for (const path of [`/users/${user.id}`, '/users/%31', `/users/${user.id}?x=%zz`]) {
      const response = await app.http.get(path)
      expect(response.status).toBe(200)
      expect(response.body).toEqual(user)
    }
  })
})

describe.each(['put', 'patch'] as const)('%s /users/{id}', method => {
  test('changes the fields sent and updated_at, and answers 200', async () => {
    const clock = createFakeClock()
    const app = await openTestApp({ now: clock.now })
    const user = await created(app)
    clock.advance(1500)
    const response = await app.http[method](`/users/${user.id}`).send({ user: { name: 'Bea' } })
    expect(response.status).toBe(200)
    expect(response.body).toEqual({ ...user, name: 'Bea', updated_at: '2026-01-31T12:00:01.500Z' })
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(response.body)
  })

  test('repeated leaves the same result', async () => {
    const clock = createFakeClock()
    const app = await openTestApp({ now: clock.now })
    const { id } = await created(app)
    const body = newUserBody({ password: 'correct horse' })
    const first = await app.http[method](`/users/${id}`).send(body)
    const digests = await storedDigests(app)
    clock.advance(1000)
    const second = await app.http[method](`/users/${id}`).send(body)
    expect(second.status).toBe(200)
    expect(second.text).toBe(first.text)
    expect(await storedDigests(app)).toEqual(digests)
  })

  async function openWithPassword(password: string) {
    const app = await openTestApp()
    const { id } = await created(app, { password })
    const change = async (user: object) => app.http[method](`/users/${id}`).send({ user })
    return { app, change }
  }

  test('changes updated_at with the password, and when null removes it', async () => {
    const clock = createFakeClock()
    const app = await openTestApp({ now: clock.now })
    const user = await created(app, { password: 'correct horse' })
    const change = (password: string | null) =>
      app.http[method](`/users/${user.id}`).send({ user: { password } })
    clock.advance(1)
    expect((await change('battery staple')).body.updated_at).toBe('2026-01-31T12:00:00.001Z')
    clock.advance(1)
    expect((await change(null)).body.updated_at).toBe('2026-01-31T12:00:00.002Z')
    expect(await storedDigests(app)).toEqual([null])
    clock.advance(1)
    expect((await change(null)).body.updated_at).toBe('2026-01-31T12:00:00.002Z')
  })

  test('of a new password, twice at once, changes updated_at once', async () => {
    const { app, change } = await openWithPassword('correct horse')
    const answers = await Promise.all([
      change({ password: 'battery staple' }),
      change({ password: 'battery staple' }),
    ])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(answers[0]?.text).toBe(answers[1]?.text)
    expect(await storedDigests(app)).toHaveLength(1)
  })

  test('with the stored password succeeds, also during a change of the password', async () => {
    let stored = 'password 0'
    const { change } = await openWithPassword(stored)
    const startedAt = performance.now()
    await change({ password: stored })
    const onceMs = performance.now() - startedAt
    for (let round = 1; round <= 8; round++) {
      const other = `password ${round}`
      const changing = change({ password: other })
      // Somewhere between the beginning of the other one and its end.
      await sleep((onceMs * round) / 4)
      const keeping = await change({ name: `Name ${round}`, password: stored })
      const changed = await changing
      expect([keeping.status, changed.status]).toEqual([200, 200])
      if (keeping.body.updated_at < changed.body.updated_at) stored = other
      // The request with the latest updated_at is the one whose password is stored.
      const last = stored === other ? changed : keeping
      expect((await change({ password: stored })).body.updated_at).toBe(last.body.updated_at)
    }
  })

  test('makes updated_at later although the clock goes back', async () => {
    const clock = createFakeClock()
    const app = await openTestApp({ now: clock.now })
    const user = await created(app)
    let before = user.updated_at
    for (const name of ['Bea', 'Cid', 'Dan']) {
      clock.advance(-3_600_000)
      const { body } = await app.http[method](`/users/${user.id}`).send({ user: { name } })
      expect(body.updated_at > before).toBe(true)
      before = body.updated_at
    }
  })

  test('answers 422 for the e-mail of another user, and changes nothing', async () => {
    const app = await openTestApp()
    await created(app, { email: 'ann@x.co' })
    const user = await created(app)
    const response = await app.http[method](`/users/${user.id}`).send({
      user: { name: 'Bea', email: 'Ann@x.co' },
    })
    expect(response.status).toBe(422)
    expect(response.body.errors).toEqual({ email: ['has already been taken'] })
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(user)
  })

  test('ignores attributes that it does not know', async () => {
    const app = await openTestApp()
    const user = await created(app)
    const response = await app.http[method](`/users/${user.id}`).send({
      user: { id: 9, created_at: 'x', updated_at: 'x', version: 9 },
    })
    expect(response.status).toBe(200)
    expect(response.body).toEqual(user)
  })
})

describe('DELETE /users/{id}', () => {
  test('answers 204 without a body, then 404, and deletes one user', async () => {
    const app = await openTestApp()
    const kept = await created(app)
    const { id } = await created(app)
    const response = await app.http.delete(`/users/${id}`)
    expect(response.status).toBe(204)
    expect(response.text).toBe('')
    expect(response.headers).not.toHaveProperty('content-type')
    const again = await app.http.delete(`/users/${id}`)
    expect(again.status).toBe(404)
    expect(again.body.resource).toBe('User')
    expect((await app.http.get('/users')).body).toEqual([kept])
  })

  test('does not free the id for a new user', async () => {
    const app = await openTestApp()
    const { id } = await created(app)
    await app.http.delete(`/users/${id}`)
    expect((await created(app)).id).toBe(id + 1)
  })
})
