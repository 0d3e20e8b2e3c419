import { beforeAll, describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { byEngine } from '../support/engine.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'

interface ShownUser {
  readonly id: number
  readonly name: string
}

/** Bodies of creates. */
const someUsers = (count: number) => Array.from({ length: count }, () => newUserBody())

const someNamed = (...names: string[]) => names.map(name => newUserBody({ name }))

function idsOf(body: readonly ShownUser[]): number[] {
  return body.map(({ id }) => id)
}

/** The targets of a Link header by their relation. */
function linksOf(header: string | undefined): Record<string, string> {
  const links = [...(header ?? '').matchAll(/<([^>]*)>; rel="(\w+)"/g)]
  return Object.fromEntries(links.map(([, target, relation]) => [relation, target]))
}

/** The target of the link to the next page. */
async function nextOf({ http }: TestApp, path: string): Promise<string> {
  return linksOf((await http.get(path).expect(200)).headers.link).next ?? ''
}

async function walk({ http }: TestApp, first: string): Promise<ShownUser[][]> {
  const pages: ShownUser[][] = []
  for (let target: string | undefined = first; target !== undefined; ) {
    const response = await http.get(target)
    expect(response.status).toBe(200)
    pages.push(response.body)
    target = linksOf(response.headers.link).next
  }
  return pages
}

const five = shareTestApp({ users: someNamed('a', 'b', 'a', 'b', 'a') })

describe('GET /users per_page, page and after', () => {
  test('has 100 users by default, and no totals or numbered links', async () => {
    const app = await openTestApp()
    await Promise.all(someUsers(101).map(body => app.http.post('/users').send(body).expect(201)))
    const response = await app.http.get('/users')
    expect(response.body).toHaveLength(100)
    expect(Object.keys(linksOf(response.headers.link))).toEqual(['next'])
    expect(response.headers).not.toHaveProperty('x-total-count')
    expect((await walk(app, '/users')).map(page => page.length)).toEqual([100, 1])
  })

  test('has up to 1000 users, and no next link on a full last page', async () => {
    for (const perPage of [1000, 5]) {
      const response = await five.http.get(`/users?per_page=${perPage}`)
      expect(response.body).toHaveLength(5)
      expect(response.headers).not.toHaveProperty('link')
    }
  })

  test('links a numbered page to the first, the previous and, by cursor, the next one', async () => {
    const first = linksOf((await five.http.get('/users?page=1&per_page=2')).headers.link)
    expect(Object.keys(first)).toEqual(['next', 'first'])
    const second = await five.http.get('/users?per_page=2&page=2')
    expect(idsOf(second.body)).toEqual([3, 4])
    const links = linksOf(second.headers.link)
    expect(links.first).toBe('/users?per_page=2&page=1')
    expect(links.prev).toBe('/users?per_page=2&page=1')
    expect(links.next).toMatch(/^\/users\?per_page=2&after=[\w-]+$/)
    expect(idsOf((await five.http.get(links.next ?? '')).body)).toEqual([5])
    const beyond = await five.http.get('/users?per_page=2&page=9')
    expect(beyond.body).toEqual([])
    expect(linksOf(beyond.headers.link)).toEqual({
      first: '/users?per_page=2&page=1',
      prev: '/users?per_page=2&page=8',
    })
  })

  test('keeps every other parameter in its links', async () => {
    const name = 'Ann & Bob = "100%"'
    const app = await openTestApp({ users: someNamed(name, name, name) })
    const pages = await walk(
      app,
      `/users?name=${encodeURIComponent(name.toLowerCase())}&sort=-created_at&created_after=2020-01-01T00:00:00%2B02:00&per_page=1&envelope=false&count=true`,
    )
    expect(pages.map(idsOf)).toEqual([[3], [2], [1]])
  })

  test('allows other filters and another per_page on the next page', async () => {
    const next = await nextOf(five, '/users?per_page=1')
    const rest = await five.http.get(`${next.replace('per_page=1', 'per_page=9')}&name=a`)
    expect(idsOf(rest.body)).toEqual([3, 5])
  })

  test('continues after a user who is gone', async () => {
    const app = await openTestApp({ users: someUsers(4) })
    const next = await nextOf(app, '/users?per_page=2')
    await app.http.delete('/users/2')
    expect(idsOf((await app.http.get(next)).body)).toEqual([3, 4])
  })
})

describe('GET /users after a cursor', () => {
  const sorted = '/users?per_page=1&sort=name'

  test('rejects one of another sort or direction', async () => {
    const next = await nextOf(five, sorted)
    await five.http.get(next).expect(200)
    for (const other of ['sort=-name', 'sort=email', 'sort=id', '']) {
      const response = await five.http.get(next.replace('sort=name', other))
      expect(response.status).toBe(400)
      expect(response.body.errors).toHaveProperty('after')
    }
  })

  test('rejects one that is altered, cut or invented', async () => {
    const [path = '', cursor = ''] = (await nextOf(five, sorted)).split('after=')
    const altered = [...cursor].map((char, index) => {
      const other = char === 'A' ? 'B' : 'A'
      return cursor.slice(0, index) + other + cursor.slice(index + 1)
    })
    const madeUp = [cursor.slice(0, -1), `${cursor}A`, `${cursor}=`, `${cursor}%20`, 'x', 'bnVsbA']
    for (const text of [...altered, ...madeUp]) {
      const { status, body } = await five.http.get(`${path}after=${text}`)
      expect({ text, status }).toEqual({ text, status: 400 })
      expect(body.errors).toHaveProperty('after')
    }
  })

  test('accepts one, and an ETag, from before a restart, and no cursor of another database', async () => {
    const app = await openTestApp({ users: someUsers(2) })
    const next = await nextOf(app, sorted)
    const { etag = '' } = (await app.http.get('/users')).headers
    await app.stop()
    const again = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    expect(idsOf((await again.http.get(next)).body)).toEqual([2])
    await again.http.get('/users').set('If-None-Match', etag).expect(304)
    expect((await five.http.get(next)).status).toBe(400)
  })
})

describe('GET /users sort', () => {
  const clock = createFakeClock()
  const app = shareTestApp({
    now: clock.now,
    users: [
      newUserBody({ name: 'b', email: 'D@x.co' }),
      newUserBody({ name: 'A', email: 'c@x.co' }),
      newUserBody({ name: 'Ä', email: 'B@x.co' }),
      newUserBody({ name: 'a', email: 'a@x.co' }),
    ],
  })
  beforeAll(async () => {
    clock.advance(1)
    await app.http.put('/users/1').send({ user: { email: 'd@x.co' } })
  })

  test.each([
    ['id', [1, 2, 3, 4]],
    ['-id', [4, 3, 2, 1]],
    ['name', [2, 4, 1, 3]],
    ['-name', [3, 1, 4, 2]],
    ['email', [4, 3, 2, 1]],
    ['-email', [1, 2, 3, 4]],
    ['created_at', [1, 2, 3, 4]],
    ['-created_at', [4, 3, 2, 1]],
    ['updated_at', [2, 3, 4, 1]],
    ['-updated_at', [1, 4, 3, 2]],
  ])('=%s sorts by it, and equal users by id', async (sort, ids) => {
    expect(idsOf((await app.http.get(`/users?sort=${sort}`)).body)).toEqual(ids)
    const pages = await walk(app, `/users?per_page=1&sort=${sort}`)
    expect(pages.flatMap(idsOf)).toEqual(ids)
  })
})

describe('GET /users filters', () => {
  const clock = createFakeClock()
  const app = shareTestApp({ now: clock.now })
  beforeAll(async () => {
    for (const fields of [
      { name: 'Zoë', email: 'Ann@example.com' },
      { name: 'ZOË' },
      { name: 'bob b' },
    ]) {
      await app.http.post('/users').send(newUserBody(fields)).expect(201)
      clock.advance(1000)
    }
    await app.http.put('/users/1').send({ user: { email: 'ann@example.com' } })
  })

  test.each([
    ['email=ANN@example.COM', [1]],
    ['email=ann@example', []],
    ['name=zo%C3%8B', [1, 2]],
    ['name=Zoe%CC%88', [1, 2]],
    ['name=zoe', []],
    ['name=Bob+B', [3]],
    ['name=Bob%20B', [3]],
    ['created_after=2026-01-31T12:00:00.000Z', [2, 3]],
    ['created_after=2026-01-31T13:00:00%2B01:00', [2, 3]],
    ['created_after=2026-01-31T13:00:00+01:00', [2, 3]],
    ['created_after=2026-01-31T11:59:59.9999Z', [1, 2, 3]],
    ['created_after=2026-01-31T12:00Z', [2, 3]],
    ['created_after=2026-01-31T13:00:00%2B0100', [2, 3]],
    ['created_after=2026-01-31T13:00:00,5%2B01', [2, 3]],
    ['created_before=2026-01-31T12:00:01Z', [1]],
    ['created_before=2026-01-31T12:00:01.0001Z', [1, 2]],
    ['created_after=2026-01-31T12:00:00Z&created_before=2026-01-31T12:00:02Z', [2]],
    ['updated_after=2026-01-31T12:00:02Z', [1]],
    ['updated_before=2026-01-31T12:00:02Z', [2]],
    ['created_before=0000-01-01T00:00:00%2B14:00', []],
    ['created_before=9999-12-31T23:59:59-14:00', [1, 2, 3]],
    ['name=zo%C3%AB&created_after=2026-01-31T12:00:00Z', [2]],
  ])('?%s gives %j', async (query, ids) => {
    const response = await app.http.get(`/users?${query}&count=true`)
    expect(response.status).toBe(200)
    expect(idsOf(response.body)).toEqual(ids)
    expect(response.headers['x-total-count']).toBe(String(ids.length))
  })
})

test('GET /users finds names whose letters change their length or form with their case', async () => {
  const names = ['ΟΔΟΣ', 'J\u030c', 'İ']
  const app = await openTestApp({ users: someNamed(...names) })
  for (const [index, spellings] of [
    ['ΟΔΟΣ', 'οδος', 'οδοσ'],
    ['J\u030c', '\u01f0', 'j\u030c'],
    ['İ', 'i\u0307'],
  ].entries()) {
    for (const spelling of spellings) {
      const response = await app.http.get(`/users?name=${encodeURIComponent(spelling)}`)
      expect([spelling, idsOf(response.body)]).toEqual([spelling, [index + 1]])
    }
  }
})

test('GET /users count and envelope answer the object of data, page, has_more and total_count', async () => {
  const app = await openTestApp({ users: someUsers(3) })
  const plain = await app.http.get('/users?per_page=2')
  const first = await app.http.get('/users?per_page=2&envelope=true&count=true')
  expect(Object.keys(first.body)).toEqual(['data', 'page', 'has_more', 'total_count'])
  expect(first.body).toEqual({ data: plain.body, page: 1, has_more: true, total_count: 3 })
  expect(first.headers['x-total-count']).toBe('3')
  const last = await app.http.get(linksOf(first.headers.link).next ?? '')
  expect(Object.keys(last.body)).toEqual(['data', 'has_more', 'total_count'])
  expect(last.body).toMatchObject({ has_more: false, total_count: 3 })
  const uncounted = await app.http.get('/users?page=2&envelope=true&count=false')
  expect(uncounted.body).toEqual({ data: [], page: 2, has_more: false })
  expect(uncounted.headers).not.toHaveProperty('x-total-count')
  await app.http.delete('/users/2')
  expect((await app.http.get('/users?count=true')).headers['x-total-count']).toBe('2')
})

/** Queries whose first parameter is wrong. */
const WRONG_QUERIES = `
  foo=1 Page=1 __proto__=1 constructor=1 sort[]=id per_page per_page= per_page=0 per_page=1001
  per_page=010 per_page=1.0 per_page=1e2 per_page=-1 per_page=%20+1 per_page=10&per_page=10
  page=0 page=99999999999999999999 page=x after= after=x after=%ff sort=password
  created_after=2026-11-22T01:09.5Z updated_before=2026-11-22T01:09,5%2B01:00 sort=- sort=--id
  sort=ID sort=id,name email= email=% name=%c3 name=a&name=b created_after=2026-01-31
  created_after=2026-01-31T12:00:00 created_before=2026-02-30T12:00:00Z updated_after=1769860800
  updated_before=2026-01-31T25:00:00Z count=1 count=TRUE envelope=yes`

describe('GET /users rejects', () => {
  test.each(WRONG_QUERIES.trim().split(/\s+/))('?%s and names its parameter', async query => {
    const [name] = query.split('=')
    const response = await five.http.get(`/users?${query}`)
    expect(response.status).toBe(400)
    expect(response.body).toMatchObject({ resource: 'User', code: 400, status: false })
    expect(Object.keys(response.body.errors)).toEqual([name])
    const problem = await five.http.get(`/users?${query}`).set('Accept', 'application/problem+json')
    expect(problem.body.errors).toEqual([{ detail: expect.any(String), parameter: name }])
  })

  test('page together with after, and reports every other wrong parameter too', async () => {
    const next = await nextOf(five, '/users?per_page=1')
    const response = await five.http.get(`${next}&page=1&count=maybe`)
    expect(response.status).toBe(400)
    expect(Object.keys(response.body.errors).sort()).toEqual(['after', 'count'])
  })

  test('no query of other endpoints, and no empty query', async () => {
    for (const path of ['/users?', '/users?&', '/users/1?foo=%zz', '/?page=0', '/livez?page=0']) {
      expect((await five.http.get(path)).status).toBe(200)
    }
    const app = await openTestApp()
    expect((await app.http.post('/users?foo=1').send(newUserBody())).status).toBe(201)
  })

  test('a wrong parameter, whatever version of the list the client has', async () => {
    const { etag = '' } = (await five.http.get('/users')).headers
    for (const condition of [etag, '*']) {
      await five.http.get('/users?per_page=0').set('If-None-Match', condition).expect(400)
    }
  })
})

const PLACES = byEngine({ sqlite: ['a file', ':memory:'], postgres: ['a database'] })

describe('GET /users ETag', () => {
  test('changes with every change of any user, and answers 304 until then', async () => {
    const app = await openTestApp({ users: someUsers(2) })
    const tags: string[] = []
    const read = async () => {
      const response = await app.http.get('/users?sort=name')
      const tag = response.headers.etag ?? ''
      tags.push(tag)
      const again = await app.http.get('/users?sort=name').set('If-None-Match', `"x", ${tag}`)
      expect(again.status).toBe(304)
      expect(again.text).toBe('')
      expect(again.headers.etag).toBe(tag)
      expect(again.headers['cache-control']).toBe('private, no-cache')
    }
    await read()
    await app.http.put('/users/1').send({ user: { name: 'Bea' } })
    await read()
    await app.http.delete('/users/2')
    await read()
    await app.http.post('/users').send(newUserBody()).expect(201)
    await read()
    expect(new Set(tags).size).toBe(4)
    const stale = await app.http.get('/users?sort=name').set('If-None-Match', tags[0] ?? '')
    expect(stale.status).toBe(200)
  })

  test.each(PLACES)('differs from that of another database, in %s', async place => {
    const env = place === ':memory:' ? { DATABASE_URL: place } : {}
    const apps = [
      await openTestApp({ env, users: someUsers(1) }),
      await openTestApp({ env, users: someUsers(1) }),
    ]
    const tags = await Promise.all(
      apps.map(async ({ http }) => (await http.get('/users')).headers.etag ?? ''),
    )
    for (const app of apps) {
      const statuses = tags.map(
        async tag => (await app.http.get('/users').set('If-None-Match', tag)).status,
      )
      expect((await Promise.all(statuses)).toSorted()).toEqual([200, 304])
    }
  })
})

test('HEAD /users answers with the headers of GET and no body', async () => {
  const path = '/users?per_page=2&count=true'
  const get = await five.http.get(path)
  const head = await five.http.head(path)
  expect(head.status).toBe(200)
  expect(head.text).toBeUndefined()
  for (const name of ['etag', 'link', 'x-total-count', 'content-type', 'content-length']) {
    expect(head.headers[name]).toBe(get.headers[name])
  }
})

test('GET /users shows each change at once, of any process', async () => {
  const app = await openTestApp()
  const names = async (query = '') => {
    const { body } = await app.http.get(`/users${query}`)
    return body.map(({ name }: { name: string }) => name)
  }
  await app.http.post('/users').send(newUserBody({ name: 'Ann' }))
  expect([await names(), await names()]).toEqual([['Ann'], ['Ann']])
  const { body } = await app.http.post('/users').send(newUserBody({ name: 'Bea' }))
  expect(await names()).toEqual(['Ann', 'Bea'])
  await app.http.put(`/users/${body.id}`).send({ user: { name: 'Cid' } })
  expect(await names()).toEqual(['Ann', 'Cid'])
  expect(await names('?sort=-id')).toEqual(['Cid', 'Ann'])
  await executeSql(app.databaseUrl, `UPDATE users SET name = 'Dan' WHERE id = ${body.id}`)
  expect([await names(), await names('?sort=-id')]).toEqual([
    ['Ann', 'Dan'],
    ['Dan', 'Ann'],
  ])
  await app.http.delete(`/users/${body.id}`)
  expect(await names()).toEqual(['Ann'])
})
