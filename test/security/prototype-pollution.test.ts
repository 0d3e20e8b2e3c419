import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { AS_JSON } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

const PROTOTYPES = [Object.prototype, Array.prototype, Function.prototype, String.prototype]

const ownKeys = () => PROTOTYPES.map(prototype => Reflect.ownKeys(prototype))

const NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'toJSON', 'then']

/** The property that an unsafe merge of such a key would leave. */
const HARM =
  '{"polluted":true,"name":"Eve","email":"eve@x.co","password":"polluted!","prototype":{"polluted":true}}'

/** Bodies with the key in another place each. */
const PLACES = {
  beside: (pair: string, user: string) => `{${pair},"user":{${user}}}`,
  inside: (pair: string, user: string) => `{"user":{${pair},${user}}}`,
  inAList: (pair: string, user: string) =>
    `{"user":{${user},"roles":[{${pair}},[{"a":{${pair}}}]]}}`,
}

const app = shareTestApp()

test.each(NAMES)('a key %s in the body of a create or an update has no side effect', async name => {
  const { http } = app
  const keysBefore = ownKeys()
  const pair = `${JSON.stringify(name)}:${HARM}`
  for (const [place, bodyOf] of Object.entries(PLACES)) {
    const email = `${name}.${place}@x.co`
    const headers = { ...AS_JSON, 'Idempotency-Key': `${name}-${place}` }
    const body = bodyOf(pair, `"name":"Bea","email":"${email}"`)
    const created = await http.post('/users').set(headers).send(body).expect(201)
    expect(Object.keys(created.body)).toEqual(['id', 'name', 'email', 'created_at', 'updated_at'])
    expect(created.body).toMatchObject({ name: 'Bea', email })
    expect((await http.post('/users').set(headers).send(body)).text).toBe(created.text)
    const put = (sent: string) =>
      http
        .put(created.headers.location ?? '')
        .set(AS_JSON)
        .send(sent)
    const changed = { ...created.body, name: 'Cid', updated_at: expect.any(String) }
    expect((await put(bodyOf(pair, '"name":"Cid"'))).body).toEqual(changed)
    const refused = await put(`{"user":{"name":{${pair}}}}`).expect(422)
    expect(refused.body.errors).toEqual({ name: ['must be a string'] })
  }
  expect((await http.get('/users').expect(200)).text).not.toMatch(/polluted|Eve/)
  expect(ownKeys()).toEqual(keysBefore)
})

test.each([
  [['user'], `{"__proto__":{"user":{"name":"Eve","email":"eve@x.co"}}}`],
  [['name', 'email'], `{"user":{"__proto__":${HARM}}}`],
])('a body has no %j under another key: %s', async (missing, body) => {
  const response = await app.http.post('/users').set(AS_JSON).send(body).expect(422)
  expect(Object.keys(response.body.errors)).toEqual(missing)
})

test('a rule that counts by a key that every object inherits counts no request', async () => {
  const by = ['query:__proto__', 'body:__proto__.name', 'body:constructor.name', 'header:__proto__']
  const rateLimits = by.map(key => ({ to: 1, within: '1 minute', by: key }))
  const { http } = await openTestApp({ limits: { rateLimits } })
  for (const _ of [1, 2]) await http.post('/users').send(newUserBody()).expect(201)
})
