import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { selectRows } from '../support/sql.ts'

/** For tests that only look at users of their own. */
const app = shareTestApp()

async function create({ http }: TestApp, fields: Record<string, unknown> = {}) {
  return (await http.post('/users').send(newUserBody(fields)).expect(201)).body
}

/** The stored digest of a password, which no response shows. */
async function digestOf({ id }: { readonly id: number }, { databaseUrl }: TestApp = app) {
  const [row] = await selectRows(databaseUrl, `SELECT password_digest FROM users WHERE id = ${id}`)
  return row?.password_digest
}

describe('POST /users', () => {
  test('answers 201, the user with its fields in order, and Location', async () => {
    const { http } = await openTestApp()
    const ann = newUserBody({ name: 'Ann', email: 'Ann@x.co', password: 'correct horse' })
    const { body, headers } = await http.post('/users').send(ann).expect(201)
    expect(Object.keys(body)).toEqual(['id', 'name', 'email', 'created_at', 'updated_at'])
    expect(body).toMatchObject({ id: 1, name: 'Ann', email: 'Ann@x.co' })
    expect(body.created_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect(body.updated_at).toBe(body.created_at)
    expect(headers.location).toBe('/users/1')
    expect(headers['content-type']).toBe('application/json; charset=utf-8')
    expect(headers['cache-control']).toBe('private, no-cache')
  })

  test('lets one of twenty with one address through, and answers 422 to the others', async () => {
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        app.http.post('/users').send(newUserBody({ email: index % 2 ? 'A@one.co' : 'a@ONE.co' })),
      ),
    )
    expect(responses.filter(({ status }) => status === 201)).toHaveLength(1)
    for (const { status, body } of responses.filter(response => response.status !== 201)) {
      expect([status, body.errors]).toEqual([422, { email: ['has already been taken'] }])
    }
    expect((await app.http.get('/users?email=a@one.co')).body).toHaveLength(1)
  })

  test('keeps the password as an Argon2id digest only, and none for null', async () => {
    const [one, other, ...none] = [
      await digestOf(await create(app, { password: '  spaces  ' })),
      await digestOf(await create(app, { password: '  spaces  ' })),
      await digestOf(await create(app, { password: null })),
      await digestOf(await create(app)),
    ]
    expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
    expect(other).not.toBe(one)
    expect(none).toEqual([null, null])
    for (const count of [8, 128]) await create(app, { password: '😀'.repeat(count) })
  })
})

const LONG_EMAIL = `${'a'.repeat(242)}@example.com`

describe('validation', () => {
  const blank = ["can't be blank"]
  const notText = ['must be a string']
  const invalid = ['is invalid']
  const tooLong = (most: number) => [`is too long (maximum is ${most} characters)`]
  const tooShort = ['is too short (minimum is 8 characters)']

  test.each<[string, unknown, string[]]>([
    ['name', null, blank],
    ['name', ' \t\n\u3000 ', blank],
    ['name', ' \u200b\u202e', blank],
    ['name', '\u115f\u1160\u2800\u3164\uffa0\u034f', blank],
    ['name', '\u00ad\u{e0041}\ufeff', blank],
    ['name', 5, notText],
    ['name', ['Ann'], notText],
    ['name', '😀'.repeat(256), tooLong(255)],
    ['name', 'a\u0000b', invalid],
    ['name', 'a\nb', invalid],
    ['name', 'a\u202eb', invalid],
    ['name', 'a\ud800b', invalid],
    ['name', '\udc00a', invalid],
    ['name', '\u200b\u0000', invalid],
    ['name', `${'a'.repeat(255)}\u0007b`, [...tooLong(255), ...invalid]],
    ['email', null, blank],
    ['email', '  ', blank],
    ['email', { at: 'x' }, notText],
    ['email', 'ann@', invalid],
    ['email', 'ann@localhost', invalid],
    ['email', `ann@${'x'.repeat(64)}.co`, invalid],
    ['email', 'ann@x-.co', invalid],
    ['email', 'josé@x.co', invalid],
    ['email', `${'a'.repeat(90_000)}@x.co`, tooLong(254)],
    ['email', `a@${'a.'.repeat(50_001)}co`, [...invalid, ...tooLong(254)]],
    ['email', 'ann@x.co\u0000', invalid],
    ['email', '\ud800a@x.co', invalid],
    ['email', 'ann@x.co, bob@x.co', invalid],
    ['email', `a${LONG_EMAIL}`, tooLong(254)],
    ['password', 12345678, notText],
    ['password', '', tooShort],
    ['password', '😀'.repeat(7), tooShort],
    ['password', '1'.repeat(129), tooLong(128)],
    ['password', '12345678\u0000', invalid],
    ['password', '12345678\udfff', invalid],
    ['password', '12345678\u009f', invalid],
  ])('POST and PUT /users reject %s %j', async (field, value, messages) => {
    const { id } = await create(app)
    const post = await app.http.post('/users').send(newUserBody({ [field]: value }))
    const put = await app.http.put(`/users/${id}`).send({ user: { [field]: value } })
    expect([post.status, post.body.errors]).toEqual([422, { [field]: messages }])
    expect([put.status, put.body.errors]).toEqual([422, { [field]: messages }])
  })

  test.each<[string, string, string]>([
    ['name', '  Ann \n', 'Ann'],
    ['name', 'Zoe\u0308', 'Zoë'],
    ['name', '😀'.repeat(255), '😀'.repeat(255)],
    ['name', "Robert'); DROP TABLE users;--", "Robert'); DROP TABLE users;--"],
    ['email', ' Ann@Example.com ', 'Ann@Example.com'],
    ['name', '\u200bA\u3164', '\u200bA\u3164'],
    ['email', LONG_EMAIL, LONG_EMAIL],
    ['email', '.a..b.@x.c', '.a..b.@x.c'],
    ['email', "!#$%&'*+/=?^_`{|}~-@1.2", "!#$%&'*+/=?^_`{|}~-@1.2"],
  ])('POST /users takes %s %j as %j', async (field, value, kept) => {
    const user = await create(app, { [field]: value })
    expect(user[field]).toBe(kept)
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(user)
  })

  test('PASSWORD_MIN_LENGTH sets the minimum length, and the message has it', async () => {
    const strict = await openTestApp({ env: { PASSWORD_MIN_LENGTH: '12' } })
    const response = await strict.http.post('/users').send(newUserBody({ password: '12345678901' }))
    expect(response.body.errors).toEqual({ password: ['is too short (minimum is 12 characters)'] })
    await create(strict, { password: '123456789012' })
  })
})

test('GET /users/{id} answers the user, with the percent-encoded id too', async () => {
  const { http } = await openTestApp({ users: [newUserBody()] })
  const [user] = (await http.get('/users')).body
  for (const path of ['/users/1', '/users/%31', '/users/1?x=%zz']) {
    expect((await http.get(path).expect(200)).body).toEqual(user)
  }
})

describe.each(['put', 'patch'] as const)('%s /users/{id}', method => {
  const clock = createFakeClock()
  const app = shareTestApp({ now: clock.now })

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
    const { status, body } = await change({ name: 'Bea' })
    expect(status).toBe(200)
    expect(body).toEqual({ ...user, name: 'Bea', updated_at: nowAfter(1500) })
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(body)
  })

  test('repeated leaves the same result, also with a password', async () => {
    const { user, change } = await opened()
    const body = newUserBody({ password: 'correct horse' })
    const first = await change(body.user)
    const before = await digestOf(user, app)
    clock.advance(1000)
    const second = await change(body.user)
    expect([second.status, second.text]).toEqual([200, first.text])
    expect(await digestOf(user, app)).toEqual(before)
  })

  test('changes updated_at with the password, twice at once only once, and when null removes it', async () => {
    const { user, change, nowAfter } = await opened({ password: 'correct horse' })
    clock.advance(1)
    const twice = await Promise.all([1, 2].map(() => change({ password: 'battery staple' })))
    for (const { body } of twice) expect(body.updated_at).toBe(nowAfter(1))
    for (let time = 0; time < 2; time++) {
      clock.advance(1)
      expect((await change({ password: null })).body.updated_at).toBe(nowAfter(2))
    }
    expect(await digestOf(user, app)).toBeNull()
  })

  test('sets each of eight passwords that come at once, and the last one stays', async () => {
    const { user, change } = await opened()
    const passwords = Array.from({ length: 8 }, (_, index) => `battery staple ${index}`)
    const changed = await Promise.all(passwords.map(password => change({ password })))
    expect(changed.map(({ status }) => status)).toEqual(passwords.map(() => 200))
    const verify = async (password: string) =>
      app.http.post('/password-verifications').send({ user: { id: user.id, password } })
    const verified = await Promise.all(passwords.map(verify))
    expect(verified.filter(({ status }) => status === 200)).toHaveLength(1)
  })

  test.each([0, -3_600_000])(
    'makes updated_at later although the clock moves by %i',
    async step => {
      const { user, change } = await opened()
      clock.advance(step)
      expect((await change({ name: 'Bea' })).body.updated_at > user.updated_at).toBe(true)
    },
  )

  test('answers 422 for the e-mail of another user, and changes nothing', async () => {
    const { email } = await create(app)
    const { user, change } = await opened()
    const { status, body } = await change({ name: 'Bea', email: String(email).toUpperCase() })
    expect([status, body.errors]).toEqual([422, { email: ['has already been taken'] }])
    expect((await app.http.get(`/users/${user.id}`)).body).toEqual(user)
  })
})

test('DELETE /users/{id} answers 204 without a body, then 404, and frees its e-mail but no id', async () => {
  const { http } = await openTestApp({ users: [newUserBody()] })
  const body = newUserBody()
  await http.post('/users').send(body).expect(201)
  const { text, headers } = await http.delete('/users/2').expect(204)
  expect(text).toBe('')
  expect(headers).not.toHaveProperty('content-type')
  expect((await http.delete('/users/2').expect(404)).body.resource).toBe('User')
  expect((await http.get('/users')).body).toMatchObject([{ id: 1 }])
  expect((await http.post('/users').send(body).expect(201)).body.id).toBe(3)
  const freed = { user: { email: 'other@x.co' } }
  await http.put('/users/3').send(freed).expect(200)
  expect((await http.post('/users').send(body).expect(201)).body.id).toBe(4)
})
