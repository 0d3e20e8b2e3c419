import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { shareTestApp } from '../support/shared-app.ts'
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

const app = shareTestApp()

/** The row of a user, without the columns that the database counts. */
async function rowOf(id: number): Promise<SqlRow | undefined> {
  const columns = 'id, name, email, created_at, updated_at, name_lower, password_digest'
  const rows = await selectRows(app.databaseUrl, `SELECT ${columns} FROM users WHERE id = ${id}`)
  return rows[0]
}

test.each([
  ['inside of user', (user: object) => ({ user: { ...UNKNOWN, ...user } })],
  ['beside it', (user: object) => ({ ...UNKNOWN, user })],
])('POST, PUT and PATCH /users take no attribute %s', async (_, bodyOf) => {
  const { http } = app
  const { user } = newUserBody({ name: 'Ann' })
  const { body: created } = await http.post('/users').send(bodyOf(user)).expect(201)
  const { id } = created
  expect(id).not.toBe(77)
  expect(created).toEqual({
    ...{ id, name: 'Ann', email: user.email },
    created_at: expect.stringMatching(/^20[2-9]/),
    updated_at: created.created_at,
  })
  const before = await rowOf(id)
  expect(before).toEqual({ ...created, name_lower: 'ann', password_digest: null })

  for (const method of ['put', 'patch'] as const) {
    // The body has no known attribute, so nothing changes, not even the time.
    expect((await http[method](`/users/${id}`).send(bodyOf({})).expect(200)).body).toEqual(created)
    expect(await rowOf(id)).toEqual(before)
  }
  const { body: updated } = await http
    .put(`/users/${id}`)
    .send(bodyOf({ name: 'Bea' }))
    .expect(200)
  expect(updated).toEqual({ ...created, name: 'Bea', updated_at: expect.any(String) })
  expect(updated.updated_at > created.updated_at).toBe(true)
  expect(await rowOf(id)).toEqual({ ...updated, name_lower: 'bea', password_digest: null })
})

test('PUT /users/{id} changes the user of its path, whatever id its body has', async () => {
  const { http } = app
  const [one, other] = [
    (await http.post('/users').send(newUserBody()).expect(201)).body,
    (await http.post('/users').send(newUserBody()).expect(201)).body,
  ]
  const update = { id: other.id, user: { id: other.id, name: 'Eve' } }
  const { body } = await http.put(`/users/${one.id}?id=${other.id}`).send(update).expect(200)
  expect(body).toMatchObject({ id: one.id, name: 'Eve' })
  expect((await http.get(`/users/${other.id}`)).body).toEqual(other)
})

test('the digest of a password can be neither set nor read, nor used to sort or filter', async () => {
  const { http } = app
  const created = await http.post('/users').send(newUserBody({ password: 'correct horse' }))
  const path = `/users/${created.body.id}`
  const before = await rowOf(created.body.id)
  const change = { user: { password_digest: null, passwordDigest: '$x' } }
  await http.put(path).send(change).expect(200)
  expect(await rowOf(created.body.id)).toEqual(before)
  const queries = [
    'sort=password_digest',
    'password_digest=$',
    'fields=password_digest',
    'select=*',
  ]
  for (const query of queries) {
    expect((await http.get(`/users?${query}`).expect(400)).text).not.toContain('$argon2')
  }
  for (const shown of [path, '/users', '/users?envelope=true']) {
    expect((await http.get(shown).expect(200)).text).not.toContain('$')
  }
})
