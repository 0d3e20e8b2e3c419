import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { type SqlRow, selectRows } from '../support/sql.ts'

const DIGEST = '$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$AAAA'

/** Attributes that a client cannot set: columns, names of other services, and other spellings of ours. */
const UNKNOWN = {
  ...{ id: 77, ID: 77, user_id: 77, password_digest: DIGEST, passwordDigest: DIGEST },
  ...{ created_at: '2000-01-01T00:00:00.000Z', updated_at: '2000-01-01T00:00:00.000Z' },
  ...{ name_lower: 'marker', version: 'marker', role: 'marker', is_admin: true, Name: 'marker' },
  ...{ 'user[name]': 'marker', 'email ': 'marker@x.co' },
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
  expect(created).toEqual({
    ...{ id: expect.any(Number), name: 'Ann', email: user.email },
    created_at: expect.stringMatching(/^20[2-9]/),
    updated_at: created.created_at,
  })
  expect(id).not.toBe(77)
  const before = await rowOf(id)
  expect(before).toEqual({ ...created, name_lower: 'ann', password_digest: null })

  for (const method of ['put', 'patch'] as const) {
    // The body has no known attribute, so nothing changes, not even the time.
    expect((await http[method](`/users/${id}`).send(bodyOf({})).expect(200)).body).toEqual(created)
    expect(await rowOf(id)).toEqual(before)
  }
  const { body: updated } = await http.put(`/users/${id}?id=1`).send(bodyOf({ name: 'Bea' }))
  expect(updated).toEqual({ ...created, name: 'Bea', updated_at: expect.any(String) })
  expect(await rowOf(id)).toEqual({ ...updated, name_lower: 'bea', password_digest: null })
})

test('the digest of a password can be neither set nor read, nor used to sort or filter', async () => {
  const { http } = app
  const created = await http.post('/users').send(newUserBody({ password: 'correct horse' }))
  const path = `/users/${created.body.id}`
  const before = await rowOf(created.body.id)
  const removing = { user: { password_digest: null } }
  await http.put(path).send(removing).expect(200)
  expect(await rowOf(created.body.id)).toEqual(before)
  for (const query of ['sort=password_digest', 'password_digest=$', 'fields=password_digest']) {
    expect((await http.get(`/users?${query}`).expect(400)).text).not.toContain('$argon2')
  }
  for (const shown of [path, '/users', '/users?envelope=true']) {
    expect((await http.get(shown).expect(200)).text).not.toContain('$')
  }
})
