import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { shareTestApp } from '../support/shared-app.ts'

const app = shareTestApp()

const UNKNOWN = 'is not an attribute of a user'

const APPLIED = 'preference-applied'

type Method = 'post' | 'put' | 'patch'

async function send(method: Method, body: object | string, prefer = 'handling=strict') {
  const path = method === 'post' ? '/users' : await pathOfNewUser()
  const request = app.http[method](path).type('json')
  return request.set({ Prefer: prefer }).send(body)
}

async function pathOfNewUser(): Promise<string> {
  const { headers } = await app.http.post('/users').send(newUserBody()).expect(201)
  return headers.location ?? ''
}

describe.each<Method>(['post', 'put', 'patch'])('Prefer: handling=strict on %s', method => {
  const success = method === 'post' ? 201 : 200

  test('is obeyed, and says so, also for a body that is right', async () => {
    const { status, headers } = await send(method, newUserBody({ password: null }))
    expect([status, headers[APPLIED]]).toEqual([success, 'handling=strict'])
  })

  test('rejects each attribute and each key that no user has, with all other wrong fields', async () => {
    const taken = newUserBody()
    await app.http.post('/users').send(taken).expect(201)
    const user = { admin: true, ...taken.user, nmae: 'x', id: 7, password: 'x', 'a/b~c d': null }
    const body = { ...{ email: 1, user }, users_: [], name: 'y' }
    const { status, headers, body: error } = await send(method, body)
    expect([status, headers[APPLIED], error.reason]).toEqual([
      ...[422, 'handling=strict', 'validation_failed'],
    ])
    expect(Object.entries(error.errors)).toEqual(
      Object.entries({
        email: ['has already been taken', UNKNOWN],
        password: ['is too short (minimum is 8 characters)'],
        ...Object.fromEntries(['admin', 'nmae', 'id', 'a/b~c d'].map(name => [name, [UNKNOWN]])),
        ...{ users_: [UNKNOWN], name: [UNKNOWN] },
      }),
    )
  })

  test('points at each of them', async () => {
    const text = '{"user":{"a/b~c d#é":1,"__proto__":{"x":1},"\\ud800":1},"__proto__":1,"name":1}'
    const { body } = await app.http[method](method === 'post' ? '/users' : await pathOfNewUser())
      .set({ Prefer: 'handling=strict', Accept: 'application/problem+json' })
      .type('json')
      .send(text)
      .expect(422)
    const unknown = body.errors.filter(({ detail }: { detail: string }) => detail === UNKNOWN)
    expect(unknown.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      ...['#/user/a~1b~0c%20d%23%C3%A9', '#/user/__proto__', '#/user/%EF%BF%BD'],
      ...['#/__proto__', '#/name'],
    ])
  })

  test.each<[object | string, object]>([
    [{ users_: 1 }, { user: ['is required'], users_: [UNKNOWN] }],
    [
      { user: ['x'], x: 1 },
      { user: ['must be an object'], x: [UNKNOWN] },
    ],
    ['["x"]', { user: ['is required'] }],
    ['"text"', { user: ['is required'] }],
  ])('tells what is wrong with %j', async (body, errors) => {
    expect((await send(method, body)).body.errors).toEqual(errors)
  })

  test.each([
    ...['', 'handling=s\\trict', 'handling=lenient', 'handling', 'handling=""', 'strict'],
    ...[
      'respond-async',
      'handling=lenient, handling=strict',
      'x;handling=strict',
      'x="handling=strict"',
    ],
    ...['handling=stricter', 'handlings=strict', '"handling=strict"', '=, handling=strict'],
    ...['x="\\"; handling=strict', `handling=${' '.repeat(7000)}"`, `x;${'"\\"'.repeat(3000)}`],
  ])('is not read from %j, and what is unknown is ignored', async prefer => {
    const body = { ...newUserBody({ admin: true }), beside: 1 }
    const { status, headers } = await send(method, body, prefer)
    expect([status, headers[APPLIED]]).toEqual([success, undefined])
  })

  test.each([
    ...['Handling=Strict', 'handling="strict"', ' handling \t=  strict '],
    ...['respond-async, wait=100; a; b="c,d", handling=strict;x=y', ',,handling=strict,'],
    ...['handling="st\\rict"', 'x="\\"", handling=strict, handling=lenient'],
  ])('is read from %j', async prefer => {
    const { status, headers } = await send(method, newUserBody({ admin: true }), prefer)
    expect([status, headers[APPLIED]]).toEqual([422, 'handling=strict'])
  })
})

test('several Prefer headers are one list', async () => {
  const path = `${app.url}/users`
  const headers = new Headers({ 'Content-Type': 'application/json' })
  for (const value of ['wait=5', 'handling=strict', 'handling=lenient'])
    headers.append('Prefer', value)
  const body = JSON.stringify(newUserBody({ admin: true }))
  expect((await fetch(path, { method: 'POST', headers, body })).status).toBe(422)
})

test('strict handling of users rejects keys beside them, and judges each of them', async () => {
  const [right, wrong] = [newUserBody().user, newUserBody({ nmae: 'x', email: 'x' }).user]
  const beside = await send('post', { users: [right, wrong], usr: 1, nmae: 2 })
  expect([beside.status, beside.headers[APPLIED]]).toEqual([422, 'handling=strict'])
  expect(beside.body.errors).toEqual({ usr: [UNKNOWN], nmae: [UNKNOWN] })
  const all = await send('post', { users: [], user: 1, usr: 1 })
  const users = ['must have 1 to 100 users', "can't be sent together with user"]
  expect(all.body.errors).toEqual({ users, usr: [UNKNOWN] })
  const { status, headers, body } = await send('post', { users: [right, wrong, 5] })
  expect([status, headers[APPLIED]]).toEqual([200, 'handling=strict'])
  expect(body.data).toMatchObject([
    { status: 201 },
    { status: 422, errors: { email: ['is invalid'], nmae: [UNKNOWN] } },
    { status: 422, errors: { name: ["can't be blank"], email: ["can't be blank"] } },
  ])
})

test('a create with a key is judged once, and its replay applies no preference', async () => {
  const post = (body: object) =>
    app.http
      .post('/users')
      .set({ Prefer: 'handling=strict', 'Idempotency-Key': 'strict-key' })
      .send(body)
  const body = newUserBody()
  expect((await post({ ...body, beside: 1 })).status).toBe(422)
  expect((await post(body).expect(201)).headers[APPLIED]).toBe('handling=strict')
  const replay = await post(body).expect(201)
  expect(replay.headers).toMatchObject({ 'idempotency-replayed': 'true' })
  expect(replay.headers).not.toHaveProperty(APPLIED)
})

test('verifications, which take fields of their own, apply no preference', async () => {
  const body = newUserBody({ password: 'correct horse' })
  await app.http.post('/users').send(body).expect(201)
  const verification = app.http.post('/password-verifications').set({ Prefer: 'handling=strict' })
  const { headers } = await verification.send({ ...body, beside: 1 }).expect(200)
  expect(headers).not.toHaveProperty(APPLIED)
})
