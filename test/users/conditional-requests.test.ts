import { describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { shareTestApp } from '../support/shared-app.ts'

const app = shareTestApp()

async function createUser() {
  const { http } = app
  const { body, headers } = await http.post('/users').send(newUserBody())
  return { http, path: headers.location ?? '', user: body, tag: headers.etag ?? '' }
}

const STRONG = /^"[\x21\x23-\x7e]+"$/

describe('ETag', () => {
  test('of GET, POST and PUT is strong and differs between versions', async () => {
    const { http, path, tag } = await createUser()
    expect(tag).toMatch(STRONG)
    expect((await http.get(path)).headers.etag).toBe(tag)
    expect((await http.head(path)).headers.etag).toBe(tag)
    const tags = [tag]
    for (const name of ['Bea', 'Cid']) {
      const put = await http.put(path).send({ user: { name } })
      expect(put.headers.etag).toMatch(STRONG)
      expect((await http.get(path)).headers.etag).toBe(put.headers.etag)
      tags.push(put.headers.etag ?? '')
    }
    expect(new Set(tags).size).toBe(3)
  })

  test('changes with a password, which nothing else shows, and stays if nothing changes', async () => {
    const { http, path, user, tag } = await createUser()
    const same = await http.patch(path).send({ user: { name: user.name } })
    expect(same.headers.etag).toBe(tag)
    const changed = await http.patch(path).send({ user: { password: 'correct horse' } })
    expect(changed.headers.etag).not.toBe(tag)
  })

  test('is not on errors', async () => {
    const { http, path } = await createUser()
    const { headers } = await http.put(path).send({ user: { name: '' } })
    expect(headers).not.toHaveProperty('etag')
  })
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
    ['half a tag', tag => tag.slice(0, -1), 200],
  ])('that is %s', async (_name, conditionOf, status) => {
    const { http, path, tag } = await createUser()
    for (const method of ['get', 'head'] as const) {
      const response = await http[method](path).set('If-None-Match', conditionOf(tag))
      expect(response.status).toBe(status)
      expect(response.headers.etag).toBe(tag)
      if (status === 304) expect(response.headers).not.toHaveProperty('content-type')
    }
  })

  test('does not hide that a user does not exist', async () => {
    expect((await app.http.get('/users/999').set('If-None-Match', '*')).status).toBe(404)
  })
})

describe.each(['put', 'patch', 'delete'] as const)('If-Match on %s /users/{id}', method => {
  const body = { user: { name: 'Changed' } }

  test.each<[string, ConditionOf]>([
    ['the tag', tag => tag],
    ['a list with the tag', tag => `"a",, W/"b" , ${tag}`],
    ['a star', () => '*'],
  ])('lets %s through', async (_name, conditionOf) => {
    const { http, path, tag } = await createUser()
    const response = await http[method](path).set('If-Match', conditionOf(tag)).send(body)
    expect(response.status).toBe(method === 'delete' ? 204 : 200)
  })

  test.each<[string, ConditionOf]>([
    ['another tag', () => '"a"'],
    ['the tag as a weak one', tag => `W/${tag}`],
    ['the tag without quotes', tag => tag.slice(1, -1)],
    ['the tag and rubbish', tag => `${tag} x`],
    ['nothing', () => ''],
  ])('answers 412 to %s, and changes nothing', async (_name, conditionOf) => {
    const { http, path, user, tag } = await createUser()
    const response = await http[method](path).set('If-Match', conditionOf(tag)).send(body)
    expect(response.status).toBe(412)
    expect(response.body).toMatchObject({ resource: 'User', code: 412, status: false })
    expect((await http.get(path)).body).toEqual(user)
  })

  test('answers 404 before 412 if there is no user', async () => {
    for (const condition of ['"a"', '*']) {
      const response = await app.http[method]('/users/999').set('If-Match', condition).send(body)
      expect(response.status).toBe(404)
    }
  })
})

describe('If-Match on PUT /users/{id}', () => {
  test('is checked after validation and before a taken e-mail', async () => {
    const { http, path } = await createUser()
    const { body: other } = await http.post('/users').send(newUserBody())
    const put = (user: object) => http.put(path).set('If-Match', '"a"').send({ user })
    expect((await put({ name: '' })).status).toBe(422)
    expect((await put({ email: other.email })).status).toBe(412)
    expect((await put({ password: 'correct horse' })).status).toBe(412)
    expect((await put({})).status).toBe(412)
  })

  test('lets one of twenty at once through', async () => {
    const { http, path, tag } = await createUser()
    const responses = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        http
          .put(path)
          .set('If-Match', tag)
          .send({ user: { name: `Name ${index}` } }),
      ),
    )
    const statuses = responses.map(({ status }) => status).sort()
    expect(statuses).toEqual([200, ...Array.from({ length: 19 }, () => 412)])
    const winner = responses.find(({ status }) => status === 200)
    expect((await http.get(path)).body).toEqual(winner?.body)
  })

  test('lets one of a PUT and a DELETE at once through', async () => {
    const { http, path, tag } = await createUser()
    const [put, deletion] = await Promise.all([
      http
        .put(path)
        .set('If-Match', tag)
        .send({ user: { name: 'Changed' } }),
      http.delete(path).set('If-Match', tag),
    ])
    const outcomes = [put?.status, deletion?.status]
    expect([
      [200, 412],
      [404, 204],
    ]).toContainEqual(outcomes)
  })
})
