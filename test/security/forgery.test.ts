import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { storedBytes } from '../support/sql.ts'

const SIGNATURE_BYTES = 16

const REFUSAL = {
  message: 'Query parameters are invalid',
  resource: 'User',
  code: 400,
  status: false,
  reason: 'query_invalid',
  errors: { after: ['is not a cursor for this sort'] },
}

async function appWithUsers(): Promise<TestApp> {
  const app = await openTestApp()
  for (const name of ['Ann', 'Bea', 'Cid']) {
    await app.http.post('/users').send(newUserBody({ name })).expect(201)
  }
  return app
}

async function cursorOf({ http }: TestApp, sort = 'name', page = 1): Promise<Buffer> {
  const { headers } = await http.get('/users').query({ sort, per_page: page })
  const [, cursor = ''] = /after=([\w-]+)>; rel="next"/.exec(headers.link ?? '') ?? []
  return Buffer.from(cursor, 'base64url')
}

async function answerTo({ http }: TestApp, cursor: Buffer, sort = 'name') {
  const { status, body, headers } = await http
    .get('/users')
    .query({ sort, after: cursor.toString('base64url') })
  return { status, body, length: headers['content-length'] }
}

/** The parts of a response that could show how near a guess was. */
async function expectAllRefusedAlike(
  app: TestApp,
  forged: readonly Buffer[],
  sort?: string,
): Promise<void> {
  const answers = []
  for (const cursor of forged) answers.push(await answerTo(app, cursor, sort))
  const [first] = answers
  expect(first).toMatchObject({ status: 400, body: REFUSAL })
  expect(answers).toEqual(answers.map(() => first))
}

test('a cursor that differs in any bit of any byte is rejected like any other wrong one', async () => {
  const app = await appWithUsers()
  const cursor = await cursorOf(app)
  expect((await answerTo(app, cursor)).status).toBe(200)
  const flipped = [...cursor].map((byte, index) => {
    const copy = Buffer.from(cursor)
    copy[index] = byte ^ (1 << (index % 8))
    return copy
  })
  await expectAllRefusedAlike(app, flipped)
})

test('a cursor with the signature of another one, or a wrong signature, is rejected', async () => {
  const app = await appWithUsers()
  const [one, two] = [await cursorOf(app, 'name', 1), await cursorOf(app, 'name', 2)]
  const [signature, payload] = [one.subarray(0, SIGNATURE_BYTES), one.subarray(SIGNATURE_BYTES)]
  const otherPayload = two.subarray(SIGNATURE_BYTES)
  const unsigned = createHmac('sha256', '').update('name\n').update(payload).digest()
  await expectAllRefusedAlike(app, [
    Buffer.concat([signature, otherPayload]),
    Buffer.concat([two.subarray(0, SIGNATURE_BYTES), payload]),
    Buffer.concat([signature, Buffer.from('["Aaa",0]')]),
    Buffer.concat([signature, Buffer.from('["ann",1,0]')]),
    Buffer.concat([signature, Buffer.from('{"__proto__":1}')]),
    Buffer.concat([unsigned.subarray(0, SIGNATURE_BYTES), payload]),
    Buffer.concat([unsigned, payload]),
    Buffer.concat([Buffer.alloc(SIGNATURE_BYTES), payload]),
    Buffer.concat([payload, signature]),
    payload,
    signature,
    Buffer.alloc(SIGNATURE_BYTES + 1),
  ])
})

test('a cursor of another sort or of another service is rejected like a forged one', async () => {
  const [app, stranger] = [await appWithUsers(), await appWithUsers()]
  for (const sort of ['id', '-id', '-name', 'email', 'created_at', 'updated_at']) {
    await expectAllRefusedAlike(app, [await cursorOf(app, sort), await cursorOf(stranger, 'name')])
  }
})

test('a query that was signed is still no SQL', async () => {
  const app = await openTestApp()
  for (const name of [`'; DROP TABLE users; --`, `" OR 1=1 --`, `%`, `_`, 'x']) {
    await app.http.post('/users').send(newUserBody({ name })).expect(201)
  }
  for (const name of [`'; DROP TABLE users; --`, `" OR 1=1 --`, '%', '_']) {
    const { body } = await app.http.get('/users').query({ name }).expect(200)
    expect(body.map((user: { name: string }) => user.name)).toEqual([name])
  }
  const cursor = await cursorOf(app)
  expect((await answerTo(app, cursor)).body).toHaveLength(4)
})

test('an Idempotency-Key similar to a used one is another key', async () => {
  const { http } = await openTestApp()
  const key = 'f47ac10b-58cc-4372-a567-0e02b2c3d479'
  const first = newUserBody({ name: 'Ann', password: 'correct horse' })
  const created = await http.post('/users').set('Idempotency-Key', key).send(first).expect(201)
  const near = [
    key.toUpperCase(),
    key.slice(0, -1),
    `${key}0`,
    `${key}%00`,
    `x${key}`,
    `"${key}x"`,
    `${key},`,
  ]
  for (const other of near) {
    const response = await http.post('/users').set('Idempotency-Key', other).send(first)
    expect(response.status).toBe(422)
    expect(response.headers).not.toHaveProperty('idempotency-replayed')
    expect(response.body.errors).toEqual({ email: ['has already been taken'] })
  }
  const replayed = await http.post('/users').set('Idempotency-Key', key).send(first).expect(201)
  expect(replayed.text).toBe(created.text)
})

test('a used Idempotency-Key returns its answer to no other body, however similar', async () => {
  const { http } = await openTestApp()
  const send = (key: string, body: object) =>
    http.post('/users').set('Idempotency-Key', key).send(body)
  const plain = newUserBody({ name: 'Ann' })
  const secret = newUserBody({ name: 'Bea', password: 'correct horse' })
  for (const [key, body] of Object.entries({ plain, secret })) {
    const { user } = body
    await send(key, body).expect(201)
    for (const other of [
      { user: { ...user, password: 'correct horsf' } },
      { user: { ...user, password: null } },
      { user: { ...user, name: `${user.name} ` } },
      { user: { ...user, email: String(user.email).toUpperCase() } },
      { user: { ...user, is_admin: true } },
      { user, is_admin: true },
      {},
    ]) {
      const response = await send(key, other).expect(422)
      expect(response.body).toMatchObject({
        message: 'This Idempotency-Key was used with another body',
      })
      expect(response.text).not.toContain(String(user.email))
    }
  }
})

test('neither a key nor a password of a create is in the database as plain text', async () => {
  const { http, databaseUrl } = await openTestApp()
  const key = 'marker-key-0b5d6a1e'
  await http
    .post('/users')
    .set('Idempotency-Key', key)
    .send(newUserBody({ password: 'marker-password' }))
  const bytes = await storedBytes(databaseUrl)
  expect(bytes.includes('argon2id')).toBe(true)
  expect(bytes.includes('marker-')).toBe(false)
})
