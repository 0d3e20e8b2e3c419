import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { type SqlRow, selectRows } from '../support/sql.ts'

/** Attributes that a client cannot set: columns, names of other services, and other spellings of ours. */
const UNKNOWN = {
  id: 77,
  ID: 77,
  created_at: '2000-01-01T00:00:00.000Z',
  updated_at: '2000-01-01T00:00:00.000Z',
  password_digest: '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAA',
  passwordDigest: '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAA',
  name_lower: 'marker',
  user_id: 77,
  version: 'marker',
  is_admin: true,
  admin: true,
  role: 'marker',
  Name: 'marker',
  'user[name]': 'marker',
  'email ': 'marker@x.co',
}

const SELECT_USERS = `
  SELECT id, name, email, created_at, updated_at, name_lower, password_digest FROM users ORDER BY id`

function rows({ databaseUrl }: TestApp): Promise<SqlRow[]> {
  return selectRows(databaseUrl, SELECT_USERS)
}

test.each([
  ['inside of user', (user: object) => ({ user: { ...UNKNOWN, ...user } })],
  ['beside it', (user: object) => ({ ...UNKNOWN, user })],
])('POST, PUT and PATCH /users take no attribute %s', async (_, bodyOf) => {
  const app = await openTestApp()
  const { user } = newUserBody({ name: 'Ann', email: 'ann@x.co' })
  const { body: created } = await app.http.post('/users').send(bodyOf(user)).expect(201)
  expect(created).toEqual({
    id: 1,
    name: 'Ann',
    email: 'ann@x.co',
    created_at: expect.stringMatching(/^20[2-9]/),
    updated_at: created.created_at,
  })
  const before = await rows(app)
  expect(before).toEqual([{ ...created, name_lower: 'ann', password_digest: null }])

  for (const method of ['put', 'patch'] as const) {
    // The body has no known attribute, so nothing changes, not even the time.
    expect((await app.http[method]('/users/1').send(bodyOf({})).expect(200)).body).toEqual(created)
    expect(await rows(app)).toEqual(before)
  }
  const { body: updated } = await app.http
    .put('/users/1')
    .send(bodyOf({ name: 'Bea' }))
    .expect(200)
  expect(updated).toEqual({ ...created, name: 'Bea', updated_at: expect.any(String) })
  expect(updated.updated_at > created.updated_at).toBe(true)
  expect(await rows(app)).toEqual([{ ...updated, name_lower: 'bea', password_digest: null }])
})

test('PUT /users/{id} changes the user of its path, whatever id its body has', async () => {
  const { http } = await openTestApp()
  for (const _ of [1, 2]) await http.post('/users').send(newUserBody()).expect(201)
  const { body: other } = await http.get('/users/2')
  const update = { id: 2, user: { id: 2, name: 'Eve' } }
  expect((await http.put('/users/1?id=2').send(update).expect(200)).body).toMatchObject({
    id: 1,
    name: 'Eve',
  })
  expect((await http.get('/users/2')).body).toEqual(other)
})

test('the digest of a password can be neither set nor read, nor used to sort or filter', async () => {
  const app = await openTestApp()
  await app.http
    .post('/users')
    .send(newUserBody({ password: 'correct horse' }))
    .expect(201)
  const [before] = await rows(app)
  await app.http
    .put('/users/1')
    .send({ user: { password_digest: null, passwordDigest: '$x' } })
    .expect(200)
  expect(await rows(app)).toEqual([before])
  for (const query of [
    'sort=password_digest',
    'password_digest=$',
    'fields=password_digest',
    'select=*',
  ]) {
    expect((await app.http.get(`/users?${query}`).expect(400)).text).not.toContain('$argon2')
  }
  for (const path of ['/users/1', '/users', '/users?envelope=true']) {
    expect((await app.http.get(path).expect(200)).text).not.toContain('$')
  }
})
