import { afterEach, beforeEach, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { AS_JSON, askAndClose } from '../support/raw-request.ts'
import { shareTestApp } from '../support/shared-app.ts'

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

/** Keys that every object has, or that a caller may call. */
const INHERITED = ['toString', 'valueOf', 'hasOwnProperty', 'toJSON', 'then']

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

test.each([...NAMES, ...INHERITED])(
  'a key %s in the body of a create or an update has no side effect',
  async name => {
    const { http } = app
    const pair = `${JSON.stringify(name)}:${HARM}`
    for (const [place, bodyOf] of Object.entries(PLACES)) {
      const email = `${name}.${place}@x.co`
      const headers = { ...AS_JSON, 'Idempotency-Key': `${name}-${place}` }
      const body = bodyOf(pair, `"name":"Bea","email":"${email}"`)
      const created = await http.post('/users').set(headers).send(body).expect(201)
      expect(Object.keys(created.body)).toEqual(['id', 'name', 'email', 'created_at', 'updated_at'])
      expect(created.body).toMatchObject({ name: 'Bea', email })
      const replayed = await http.post('/users').set(headers).send(body).expect(201)
      expect(replayed.text).toBe(created.text)
      const path = created.headers.location ?? ''
      const update = bodyOf(pair, '"name":"Cid"')
      const updated = await http.put(path).set(AS_JSON).send(update)
      const changed = { ...created.body, name: 'Cid', updated_at: expect.any(String) }
      expect(updated.body).toEqual(changed)
      const asName = `{"user":{"name":{${pair}}}}`
      const refused = await http.put(path).set(AS_JSON).send(asName)
      expect(refused.body.errors).toEqual({ name: ['must be a string'] })
    }
    const { text } = await http.get('/users').expect(200)
    expect(text).not.toMatch(/polluted|Eve/)
  },
)

test.each(NAMES)('a body whose only user is under %s has none', async name => {
  const before = await app.http.get('/users')
  for (const [body, missing] of [
    [`{"${name}":{"user":{"name":"Eve","email":"eve@x.co"}}}`, ['user']],
    [`{"user":{"${name}":${HARM}}}`, ['name', 'email']],
  ] as const) {
    const response = await app.http.post('/users').set(AS_JSON).send(body).expect(422)
    expect(Object.keys(response.body.errors)).toEqual(missing)
  }
  expect((await app.http.get('/users')).text).toBe(before.text)
})

test.each([
  ...[...NAMES, 'toString', 'hasOwnProperty', '__proto__.polluted'],
  ...['__proto__[polluted]', 'constructor[prototype][polluted]'],
])('a query parameter %s is unknown, and named as that', async name => {
  for (const query of [`${name}=true`, `${encodeURIComponent(name)}=1&sort=name`]) {
    const { status, body } = await askAndClose(app.port, `GET /users?${query}`)
    expect(status).toBe(400)
    expect(Object.entries(JSON.parse(body).errors)).toEqual([[name, ['is unknown']]])
  }
  await app.http.get(`/users/999?${name}=true`).expect(404)
})

test('a rule that counts by a key that every object inherits counts no request', async () => {
  const by = ['query:__proto__', 'body:__proto__.name', 'body:constructor.name', 'header:__proto__']
  const rateLimits = by.map(key => ({ to: 1, within: '1 minute', by: key }))
  const { http } = await openTestApp({ limits: { rateLimits } })
  for (const _ of [1, 2, 3]) await http.post('/users').send(newUserBody()).expect(201)
})
