import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, temporaryFolder } from '../support/open-test-app.ts'
import { runCommand } from '../support/run-command.ts'
import { shareTestApp } from '../support/shared-app.ts'

const app = shareTestApp()

async function createUser() {
  const { body, headers } = await app.http.post('/users').send(newUserBody())
  return { http: app.http, path: headers.location ?? '', user: body, tag: headers.etag ?? '' }
}

test('the ETag of a user is strong, and changes when and only when the user does', async () => {
  const { http, path, user, tag } = await createUser()
  expect(tag).toMatch(/^"[\x21\x23-\x7e]+"$/)
  expect((await http.get(path)).headers.etag).toBe(tag)
  expect((await http.head(path)).headers.etag).toBe(tag)
  const change = async (fields: object) =>
    (await http.put(path).send({ user: fields })).headers.etag
  expect(await change({ name: user.name })).toBe(tag)
  // Nothing else shows that the password is another one.
  const tags = [tag, await change({ name: 'Bea' }), await change({ password: 'correct horse' })]
  expect(new Set(tags).size).toBe(3)
  expect((await http.get(path)).headers.etag).toBe(tags[2])
  expect(await change({ name: '' })).toBeUndefined()
})

test('a user whom an import brings back with other content has another ETag, and the earlier one passes no If-Match', async () => {
  const { http, databaseUrl } = await openTestApp()
  const key = { 'Idempotency-Key': 'once' }
  const body = newUserBody()
  const { headers, body: user } = await http.post('/users').set(key).send(body).expect(201)
  const { path, tag } = { path: `/users/${user.id}`, tag: String(headers.etag) }
  const replayed = await http.post('/users').set(key).send(body).expect(201)
  expect(replayed.headers.etag).toBe(tag)
  const list = await http.get('/users').expect(200)
  const bringBack = async (fields: object) => {
    await http.delete(path).expect(204)
    const input = `${JSON.stringify({ ...user, ...fields })}\n`
    const command = { cwd: temporaryFolder(), env: { DATABASE_URL: databaseUrl }, input }
    const { code } = await runCommand({ ...command, args: ['import', '-'] })
    expect(code).toBe(0)
    return http.get(path).expect(200)
  }
  for (const fields of [{ name: 'Corrected' }, { email: 'corrected@example.com' }]) {
    const read = await bringBack(fields)
    expect(read.body).toEqual({ ...user, ...fields })
    expect(read.headers.etag).not.toBe(tag)
    await http.get(path).set('If-None-Match', tag).expect(200)
    const change = () => http.put(path).send({ user: { name: 'Lost' } })
    await change().set('If-Match', tag).expect(412)
    await http.delete(path).set('If-Match', tag).expect(412)
    expect((await http.get(path)).body).toEqual(read.body)
    await change().set('If-Match', String(read.headers.etag)).expect(200)
  }
  expect((await bringBack({})).headers.etag).toBe(tag)
  await http.get('/users').set('If-None-Match', String(list.headers.etag)).expect(200)
})

type ConditionOf = (tag: string) => string

describe('If-None-Match on GET and HEAD /users/{id}', () => {
  test.each<[string, ConditionOf, number]>([
    ['the tag', tag => tag, 304],
    ['the tag as a weak one', tag => `W/${tag}`, 304],
    ['a list with the tag', tag => `"a", W/"b" ,${tag}`, 304],
    ['a star', () => '*', 304],
    ['another tag', () => '"a"', 200],
    ['the tag without quotes', tag => tag.slice(1, -1), 200],
  ])('that is %s', async (_name, conditionOf, status) => {
    const { http, path, tag } = await createUser()
    for (const method of ['get', 'head'] as const) {
      const response = await http[method](path).set('If-None-Match', conditionOf(tag))
      expect([response.status, response.headers.etag]).toEqual([status, tag])
      if (status === 304) expect(response.headers).not.toHaveProperty('content-type')
    }
  })

  test('does not hide that a user does not exist', async () => {
    await app.http.get('/users/999').set('If-None-Match', '*').expect(404)
  })
})

describe.each(['put', 'patch', 'delete'] as const)('on %s /users/{id}', method => {
  const body = { user: { name: 'Changed' } }
  const succeeds = method === 'delete' ? 204 : 200

  test.each<[string, ConditionOf]>([
    ['the tag', tag => tag],
    ['a list with the tag', tag => `"a",, W/"b" , ${tag}`],
    ['a star', () => '*'],
  ])('If-Match lets %s through', async (_name, conditionOf) => {
    const { http, path, tag } = await createUser()
    await http[method](path).set('If-Match', conditionOf(tag)).send(body).expect(succeeds)
  })

  test.each<[header: string, what: string, ConditionOf]>([
    ['If-Match', 'another tag', () => '"a"'],
    ['If-Match', 'the tag as a weak one', tag => `W/${tag}`],
    ['If-Match', 'the tag and rubbish', tag => `${tag} x`],
    ['If-Match', 'nothing', () => ''],
    ['If-None-Match', 'the tag', tag => tag],
    ['If-None-Match', 'the tag as a weak one', tag => `W/${tag}`],
    ['If-None-Match', 'a list with the tag', tag => `"a", ${tag}`],
    ['If-None-Match', 'a star', () => '*'],
  ])('%s answers 412 to %s, and changes nothing', async (header, _what, conditionOf) => {
    const { http, path, user, tag } = await createUser()
    const { body: refusal } = await http[method](path).set(header, conditionOf(tag)).send(body)
    expect(refusal).toMatchObject({ resource: 'User', code: 412, reason: 'version_mismatch' })
    expect((await http.get(path)).body).toEqual(user)
  })

  test('If-None-Match lets another tag through, and is asked beside If-Match', async () => {
    const { http, path, tag } = await createUser()
    const send = (headers: Record<string, string>) => http[method](path).set(headers).send(body)
    await send({ 'If-Match': tag, 'If-None-Match': tag }).expect(412)
    await send({ 'If-Match': '"b"', 'If-None-Match': '"a"' }).expect(412)
    await send({ 'If-Match': tag, 'If-None-Match': '"a"' }).expect(succeeds)
  })

  test.each([
    ['If-Match', '"a"'],
    ['If-Match', '*'],
    ['If-None-Match', '*'],
  ])('%s: %s answers 404 if there is no user', async (header, value) => {
    await app.http[method]('/users/999').set(header, value).send(body).expect(404)
  })
})

describe('If-Match on GET and HEAD', () => {
  test.each<[string, ConditionOf, number]>([
    ['the tag', tag => tag, 200],
    ['a star', () => '*', 200],
    ['another tag', () => '"a"', 412],
    ['the tag as a weak one', tag => `W/${tag}`, 412],
  ])('of a user and a list is asked: %s', async (_name, conditionOf, status) => {
    const { http, path } = await createUser()
    for (const target of [path, '/users']) {
      const { etag = '' } = (await http.get(target).expect(200)).headers
      for (const method of ['get', 'head'] as const) {
        await http[method](target).set('If-Match', conditionOf(etag)).expect(status)
      }
    }
  })

  test('comes before If-None-Match', async () => {
    const { http, path, tag } = await createUser()
    const both = (ifMatch: string) =>
      http.get(path).set({ 'If-Match': ifMatch, 'If-None-Match': tag })
    await both('"a"').expect(412)
    await both(tag).expect(304)
  })
})

describe('If-Match on PUT /users/{id}', () => {
  test('is checked after validation and before a taken e-mail', async () => {
    const { http, path } = await createUser()
    const { user: other } = await createUser()
    const put = (user: object) => http.put(path).set('If-Match', '"a"').send({ user })
    await put({ name: '' }).expect(422)
    await put({ email: other.email }).expect(412)
    await put({ password: 'correct horse' }).expect(412)
    await put({}).expect(412)
  })

  test('lets one of twenty at once through', async () => {
    const { http, path, tag } = await createUser()
    const put = (name: string) => http.put(path).set('If-Match', tag).send({ user: { name } })
    const responses = await Promise.all(
      Array.from({ length: 20 }, async (_, index) => put(`Name ${index}`)),
    )
    const [winner, ...others] = responses.toSorted((one, other) => one.status - other.status)
    expect(winner?.status).toBe(200)
    expect(others.map(({ status }) => status)).toEqual(Array(19).fill(412))
    expect((await http.get(path)).body).toEqual(winner?.body)
  })
})
