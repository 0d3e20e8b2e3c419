import { afterEach, beforeEach, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

const PROTOTYPES = [Object.prototype, Array.prototype, Function.prototype, String.prototype]

function ownKeys(): unknown {
  return PROTOTYPES.map(prototype => Reflect.ownKeys(prototype))
}

let keysBefore: unknown

beforeEach(() => {
  keysBefore = ownKeys()
})

afterEach(() => {
  expect(ownKeys()).toEqual(keysBefore)
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})

const NAMES = ['__proto__', 'constructor', 'prototype', '__defineGetter__', 'constructor.prototype']

/** The property that an unsafe merge of such a key would leave. */
const HARM =
  '{"polluted":true,"name":"Eve","email":"eve@x.co","password":"polluted!","prototype":{"polluted":true}}'

function bodyWith(
  key: string,
  place: 'beside' | 'inside' | 'as name' | 'in a list',
  user: string,
): string {
  const pair = `${JSON.stringify(key)}:${HARM}`
  if (place === 'beside') return `{${pair},"user":{${user}}}`
  if (place === 'inside') return `{"user":{${pair},${user}}}`
  if (place === 'as name') return `{"user":{${user},"name":{${pair}}}}`
  return `{"user":{${user},"roles":[{${pair}},[{"a":{${pair}}}]]}}`
}

test.each(NAMES)('a key %s in the body of a create or an update has no side effect', async name => {
  const app = await openTestApp()
  await app.http
    .post('/users')
    .send(newUserBody({ name: 'Ann', email: 'ann@x.co' }))
    .expect(201)
  for (const place of ['beside', 'inside', 'in a list'] as const) {
    const email = `${place.replaceAll(' ', '')}@x.co`
    const headers = {
      'Content-Type': 'application/json',
      'Idempotency-Key': `${name} ${place}`.replaceAll(' ', '-'),
    }
    const body = bodyWith(name, place, `"name":"Bea","email":"${email}"`)
    const created = await app.http.post('/users').set(headers).send(body).expect(201)
    expect(created.body).toMatchObject({ name: 'Bea', email })
    const replayed = await app.http.post('/users').set(headers).send(body).expect(201)
    expect(replayed.text).toBe(created.text)
    const update = bodyWith(name, place, '"name":"Cid"')
    const updated = await app.http
      .put(created.headers.location ?? '')
      .set('Content-Type', 'application/json')
      .send(update)
    expect(updated.body).toEqual({ ...created.body, name: 'Cid', updated_at: expect.any(String) })
  }
  const refused = await app.http
    .put('/users/1')
    .set('Content-Type', 'application/json')
    .send(bodyWith(name, 'as name', '"email":"dan@x.co"'))
  expect(refused.body.errors).toEqual({ name: ['must be a string'] })
  const { text } = await app.http.get('/users').expect(200)
  expect(text).not.toMatch(/polluted|Eve/)
})

test.each(NAMES)('a body whose only user is under %s has none', async name => {
  const { http } = await openTestApp()
  for (const body of [
    `{"${name}":{"user":{"name":"Eve","email":"eve@x.co"}}}`,
    `{"user":{"${name}":${HARM}}}`,
  ]) {
    const response = await http.post('/users').set('Content-Type', 'application/json').send(body)
    expect(response.status).toBe(422)
    expect(Object.keys(response.body.errors)).toEqual(
      body.startsWith('{"user"') ? ['name', 'email'] : ['user'],
    )
  }
  expect((await http.get('/users')).body).toEqual([])
})

test.each([
  ...NAMES,
  '__proto__[polluted]',
  'constructor[prototype][polluted]',
  '__proto__.polluted',
  'toString',
  'hasOwnProperty',
])('a query parameter %s is unknown, and named as that', async name => {
  const { port, http } = await openTestApp()
  for (const query of [`${name}=true`, `${encodeURIComponent(name)}=1&sort=name`]) {
    const [answer] = await sendRaw(
      port,
      `GET /users?${query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    ).ended
    expect(answer?.status).toBe(400)
    const { errors } = JSON.parse(answer?.body ?? '')
    expect(Object.entries(errors)).toEqual([[name, ['is unknown']]])
  }
  await http.get(`/users/1?${name}=true`).expect(404)
})

test('a rule that counts by a key that every object inherits counts no request', async () => {
  const by = [
    'query:__proto__',
    'body:__proto__.name',
    'body:constructor.name',
    'header:__proto__',
  ] as const
  const rateLimits = by.map(key => ({ to: 1, within: '1 minute', by: key }))
  const { http } = await openTestApp({ limits: { rateLimits } })
  for (const _ of [1, 2, 3]) {
    await http.post('/users').send(newUserBody()).expect(201)
  }
})
