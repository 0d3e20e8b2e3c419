import { beforeAll, describe, expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { byEngine } from '../support/engine.ts'
import { createFakeClock } from '../support/fake-clock.ts'
import { linksOf, walk } from '../support/list-pages.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql } from '../support/sql.ts'
import type { ShownUser } from '../support/user-scan.ts'

/** Bodies of creates. */
const someUsers = (count: number) => Array.from({ length: count }, () => newUserBody())

const someNamed = (...names: string[]) => names.map(name => newUserBody({ name }))

const idsOf = (body: readonly ShownUser[]) => body.map(({ id }) => id)

const namesOf = (body: readonly ShownUser[]) => body.map(({ name }) => name)

/** The target of the link to the next page. */
async function nextOf({ http }: TestApp, path: string): Promise<string> {
  return linksOf((await http.get(path).expect(200)).headers.link).next ?? ''
}

const five = shareTestApp({ users: someNamed('a', 'b', 'a', 'b', 'a') })

describe('GET /users per_page, page and after', () => {
  test('has 100 users by default, and no totals or numbered links', async () => {
    const app = await openTestApp()
    expect((await app.http.get('/users')).body).toEqual([])
    await Promise.all(someUsers(101).map(body => app.http.post('/users').send(body).expect(201)))
    const { headers } = await app.http.get('/users')
    expect(Object.keys(linksOf(headers.link))).toEqual(['next'])
    expect(headers).not.toHaveProperty('x-total-count')
    expect((await walk(app, '/users')).map(page => page.length)).toEqual([100, 1])
  })

  test.each([1000, 5])('per_page=%d has no next link on the last page', async perPage => {
    const { body, headers } = await five.http.get(`/users?per_page=${perPage}`)
    expect(body).toHaveLength(5)
    expect(headers).not.toHaveProperty('link')
  })

  test('links a numbered page to the first, the previous and, by cursor, the next one', async () => {
    const first = linksOf((await five.http.get('/users?page=1&per_page=2')).headers.link)
    expect(Object.keys(first)).toEqual(['next', 'first'])
    const second = await five.http.get('/users?per_page=2&page=2')
    expect(idsOf(second.body)).toEqual([3, 4])
    const links = linksOf(second.headers.link)
    const before = '/users?per_page=2&page=1'
    expect(links).toMatchObject({ first: before, prev: before })
    expect(links.next).toMatch(/^\/users\?per_page=2&after=[\w-]+$/)
    expect(idsOf((await five.http.get(links.next ?? '')).body)).toEqual([5])
    const beyond = await five.http.get('/users?per_page=2&page=9')
    expect(beyond.body).toEqual([])
    expect(linksOf(beyond.headers.link)).toEqual({
      first: before,
      prev: '/users?per_page=2&page=8',
    })
  })

  test('keeps every other parameter in its links, which a client may change', async () => {
    const name = 'Ann & Bob = "100%"'
    const app = await openTestApp({ users: someNamed(name, name, name) })
    const query = `name=${encodeURIComponent(name.toLowerCase())}&sort=-created_at&created_after=2020-01-01T00:00:00%2B02:00`
    const pages = await walk(app, `/users?${query}&per_page=1&envelope=false&count=true`)
    expect(pages.map(idsOf)).toEqual([[3], [2], [1]])
    const next = await nextOf(five, '/users?per_page=1')
    const rest = await five.http.get(`${next.replace('per_page=1', 'per_page=9')}&name=a`)
    expect(idsOf(rest.body)).toEqual([3, 5])
  })

  test.each(['id', '-id', 'name', '-name', '-updated_at'])(
    'a walk by %s has each user who stays once and in order, whatever changes meanwhile',
    async sort => {
      const app = await openTestApp({ users: someNamed('b', 'x', 'a', 'x', 'c', 'x') })
      const stays = idsOf((await app.http.get(`/users?sort=${sort}`)).body).filter(id => id % 2)
      const pages = await walk(app, `/users?per_page=2&sort=${sort}`, async page => {
        await app.http.put(`/users/${2 * page}`).send({ user: { name: `${page % 2}` } })
        if (page === 1) await app.http.delete('/users/4')
        if (page < 4) await app.http.post('/users').send(newUserBody({ name: 'b' }))
      })
      expect(idsOf(pages.flat()).filter(id => stays.includes(id))).toEqual(stays)
    },
  )

  test('walks through the users of ids and of e-mails in any order, and a cursor stays when the ids change', async () => {
    const path = '/users?id=5,1,2,4&per_page=1&count=true&sort=-name'
    expect((await walk(five, path)).map(idsOf)).toEqual([[4], [2], [5], [1]])
    const next = await nextOf(five, path)
    expect(idsOf((await five.http.get(next.replace(/id=[^&]*/, 'id=1,2,3'))).body)).toEqual([2])
    const all = await five.http.get('/users')
    const emails = all.body.slice(1, 4).map(({ email }: ShownUser) => email.toUpperCase())
    const repeated = emails.map((email: string) => `email[]=${email}`).join('&')
    const byEmail = await walk(five, `/users?${repeated}&per_page=2&sort=-id`)
    expect(byEmail.map(idsOf)).toEqual([[4, 3], [2]])
    const head = await five.http.get('/users?id=4,5&page=1&envelope=true&count=true')
    expect(head.body).toMatchObject({ page: 1, has_more: false, total_count: 2 })
  })

  test('accepts a cursor, and an ETag, from before a restart', async () => {
    const app = await openTestApp({ users: someUsers(2) })
    const next = await nextOf(app, '/users?per_page=1&sort=name')
    const { etag = '' } = (await app.http.get('/users')).headers
    await app.stop()
    const again = await openTestApp({ env: { DATABASE_URL: app.databaseUrl } })
    expect(idsOf((await again.http.get(next)).body)).toEqual([2])
    await again.http.get('/users').set('If-None-Match', etag).expect(304)
  })
})

describe('GET /users sort', () => {
  const clock = createFakeClock()
  const app = shareTestApp({
    now: clock.now,
    users: [
      newUserBody({ name: 'b', email: 'D@x.co' }),
      newUserBody({ name: 'A', email: 'c@x.co' }),
      newUserBody({ name: '😀', email: 'B@x.co' }),
      newUserBody({ name: 'a', email: 'a@x.co' }),
      newUserBody({ name: '\uffee', email: 'e@x.co' }),
    ],
  })
  beforeAll(async () => {
    clock.advance(1)
    await app.http.put('/users/1').send({ user: { email: 'd@x.co' } })
  })

  test.each([
    ['id', [1, 2, 3, 4, 5]],
    ['name', [2, 4, 1, 5, 3]],
    ['email', [4, 3, 2, 1, 5]],
    ['created_at', [1, 2, 3, 4, 5]],
    ['updated_at', [2, 3, 4, 5, 1]],
  ])(
    '=%s sorts by it without case, and equal users by id, in both directions',
    async (sort, ids) => {
      for (const [query, wanted] of [
        [sort, ids],
        [`-${sort}`, ids.toReversed()],
      ]) {
        expect(idsOf((await app.http.get(`/users?sort=${query}`)).body)).toEqual(wanted)
        const pages = await walk(app, `/users?per_page=1&sort=${query}`)
        expect(pages.flatMap(idsOf)).toEqual(wanted)
      }
    },
  )
})

describe('GET /users filters', () => {
  const clock = createFakeClock()
  const app = shareTestApp({ now: clock.now })
  beforeAll(async () => {
    for (const fields of [
      { name: 'Zoë', email: 'Ann@example.com' },
      { name: 'ZOË' },
      { name: 'bob b', email: '+bob++b@x.co' },
      { name: 'ΟΔΟΣ' },
      { name: 'J\u030c' },
    ]) {
      await app.http.post('/users').send(newUserBody(fields)).expect(201)
      clock.advance(1000)
    }
    await app.http.put('/users/1').send({ user: { email: 'ann@example.com' } })
  })

  test.each([
    ['id=3,1', [1, 3]],
    ['id=5,5,4,4,99,99999999999999999999', [4, 5]],
    ['id=9007199254740993', []],
    ['id=3&id=1', [1, 3]],
    ['id%5B%5D=4&id[]=2&id=1,3&id=4', [1, 2, 3, 4]],
    ['email=ann@example.com&email=+bob++b@x.co', [1, 3]],
    ['email[]=ann@example.com&sort=-id&email=nobody@x.co,+BOB++b@x.co', [3, 1]],
    ['id=1,2,3&name=zo%C3%8B&sort=-id', [2, 1]],
    ['id=1,2,5&updated_before=2026-01-31T12:00:04Z', [2]],
    ['id=1,2,3&email=ann@example.com', [1]],
    ['id=1,2,3&q=zoe', [1, 2]],
    ['email=Nobody@x.co,ANN@example.COM,ann@Example.com', [1]],
    ['email=ann@example.com,nobody@x.co&q=zoe', [1]],
    ['email=ann@ex%EF%BC%A1mple.com', []],
    ['email=ann@e%C5%BFample.com,ANN@EXAMPLE.COM', [1]],
    ['email=ann@example', []],
    ['email=%2Bbob%20%2bb@x.co,ann@example.com', [1, 3]],
    ['email=%00', []],
    ['name=zo%C3%8B', [1, 2]],
    ['name=Zoe%CC%88', [1, 2]],
    ['name=zoe', []],
    ['name=Bob+B', [3]],
    [`name=${encodeURIComponent('οδος')}`, [4]],
    [`name=${encodeURIComponent('οδοσ')}`, [4]],
    ['name=%C7%B0', [5]],
    ['name=%00', []],
    ['created_after=2026-01-31T13:00:00+01:00', [2, 3, 4, 5]],
    ['created_after=2026-01-31T11:59:59.9999Z', [1, 2, 3, 4, 5]],
    ['created_after=2026-01-31T13:00:00,5%2B01', [2, 3, 4, 5]],
    ['created_before=2026-01-31T12:00:01Z', [1]],
    ['created_after=2026-01-31T12:00:00Z&created_before=2026-01-31T12:00:02Z', [2]],
    ['updated_after=2026-01-31T12:00:04Z', [1]],
    ['updated_before=2026-01-31T12:00:02Z', [2]],
    ['created_before=0000-01-01T00:00:00%2B14:00', []],
    ['created_before=9999-12-31T23:59:59-14:00', [1, 2, 3, 4, 5]],
  ])('?%s gives %j', async (query, ids) => {
    const { body, headers } = await app.http.get(`/users?${query}&count=true`)
    expect([idsOf(body), headers['x-total-count']]).toEqual([ids, String(ids.length)])
  })
})

test('GET /users count and envelope answer the object of data, page, has_more and total_count', async () => {
  const { http } = await openTestApp({ users: someUsers(3) })
  const plain = await http.get('/users?per_page=2')
  const first = await http.get('/users?per_page=2&envelope=true&count=true')
  const envelope = { data: plain.body, page: 1, has_more: true, total_count: 3 }
  expect(first.text).toBe(JSON.stringify(envelope))
  expect(first.headers['x-total-count']).toBe('3')
  const last = await http.get(linksOf(first.headers.link).next ?? '')
  expect(Object.keys(last.body)).toEqual(['data', 'has_more', 'total_count'])
  expect(last.body).toMatchObject({ has_more: false, total_count: 3 })
  const uncounted = await http.get('/users?page=2&envelope=true&count=false')
  expect(uncounted.body).toEqual({ data: [], page: 2, has_more: false })
  expect(uncounted.headers).not.toHaveProperty('x-total-count')
})

/** Queries whose first parameter is wrong. */
const WRONG_QUERIES = `
  foo=1 Page=1 __proto__=1 constructor=1 then=1 __proto__.polluted=1 sort[]=id per_page per_page= per_page=0 per_page=1001
  per_page=010 per_page=1.0 per_page=1e2 per_page=-1 per_page=10&per_page=10
  id= id=0 id=-1 id=1.5 id=1, id=,1 id=1,,2 id=01 id=a id=1;2 id=1&id= id=1&id=a id=1&id=%ff id=&id[]=1 email=a@x.co, email=, email=a@x.co&email=
  page=0 page=99999999999999999999 after= after=x after=%ff sort=password sort=- sort=--id
  sort=ID sort=id,name email= email=% name=%c3 name=a&name=b created_after=2026-01-31
  created_after=2026-01-31T12:00:00 created_before=2026-02-30T12:00:00Z updated_after=1769860800
  created_after=2026-11-22T01:09.5Z updated_before=2026-01-31T25:00:00Z count=1 count=TRUE envelope=yes`

describe('GET /users rejects', () => {
  test.each(WRONG_QUERIES.trim().split(/\s+/))('?%s and names its parameter', async query => {
    const [name] = query.split('=')
    const { body } = await five.http.get(`/users?${query}`)
    expect(body).toMatchObject({ resource: 'User', code: 400, status: false })
    expect(Object.keys(body.errors)).toEqual([name])
  })

  test.each(['id[]=', 'id[]=a', 'id[0]=1', 'sort=id&sort=id', 'id[]=1&per_page[]=1'])(
    '?%s and names its parameter in a form of a list',
    async query => {
      const { errors } = (await five.http.get(`/users?${query}`).expect(400)).body
      const [name = ''] = Object.keys(errors)
      expect(Object.keys(errors)).toHaveLength(1)
      expect(query.replace('id[]', 'id')).toContain(name)
    },
  )

  test('more than 500 ids or 100 addresses, of which one that is repeated counts once', async () => {
    const ids = Array.from({ length: 501 }, (_, index) => index + 1)
    const emails = ids.slice(0, 101).map(id => `u${id}@x.co`)
    const ask = (name: string, values: readonly unknown[]) =>
      five.http.get(`/users?${values.map(value => `${name}=${value}`).join('&')}&per_page=1000`)
    const many = await ask('id', ids).expect(400)
    expect(many.body.errors).toEqual({
      id: ['must be 1 to 500 ids, positive integers separated by commas'],
    })
    expect(idsOf((await ask('id', [...ids.slice(1), 2]).expect(200)).body)).toEqual([2, 3, 4, 5])
    const long = await ask('email', emails).expect(400)
    expect(long.body.errors).toEqual({ email: ['must be 1 to 100 addresses separated by commas'] })
    await ask('email', [...emails.slice(1), 'U2@x.co']).expect(200)
  })

  test('page together with after, and reports every wrong parameter, in either format', async () => {
    const path = `${await nextOf(five, '/users?per_page=1')}&page=1&count=maybe`
    const { body } = await five.http.get(path).expect(400)
    expect(Object.keys(body.errors).sort()).toEqual(['after', 'count'])
    const problem = await five.http.get(path).set('Accept', 'application/problem+json')
    const detail = expect.any(String)
    expect(problem.body.errors).toContainEqual({ detail, parameter: 'count' })
    expect(problem.body.errors).toContainEqual({ detail, parameter: 'after' })
    const altered = await five.http.get('/users?after=abc&sort=name&per_page=0').expect(400)
    expect(altered.body.errors).toMatchObject({ after: ['is not a cursor for this sort'] })
    expect(Object.keys(altered.body.errors).sort()).toEqual(['after', 'per_page'])
    // Whatever version of the list the client has.
    await five.http.get('/users?per_page=0').set('If-None-Match', '*').expect(400)
  })
})

const PLACES = byEngine({ sqlite: ['a file', ':memory:'], postgres: ['a database'] })

describe('GET /users ETag', () => {
  test('changes with every change of any user, and answers 304 until then', async () => {
    const { http } = await openTestApp({ users: someUsers(2) })
    const tags: string[] = []
    const read = async () => {
      const { etag = '' } = (await http.get('/users?sort=name')).headers
      tags.push(etag)
      const again = await http.get('/users?sort=name').set('If-None-Match', `"x", ${etag}`)
      expect([again.status, again.text, again.headers.etag]).toEqual([304, '', etag])
      expect(again.headers['cache-control']).toBe('private, no-cache')
    }
    await read()
    await http.put('/users/1').send({ user: { name: 'Bea' } })
    await read()
    await http.delete('/users/2')
    await read()
    await http.post('/users').send(newUserBody()).expect(201)
    await read()
    expect(new Set(tags).size).toBe(4)
    const [first = ''] = tags
    await http.get('/users?sort=name').set('If-None-Match', first).expect(200)
  })

  test.each(PLACES)('differs from that of another database, in %s', async place => {
    const env = place === ':memory:' ? { DATABASE_URL: place } : {}
    const [one, other] = [
      await openTestApp({ env, users: someUsers(1) }),
      await openTestApp({ env, users: someUsers(1) }),
    ]
    const { etag = '' } = (await one.http.get('/users')).headers
    await one.http.get('/users').set('If-None-Match', etag).expect(304)
    await other.http.get('/users').set('If-None-Match', etag).expect(200)
  })
})

test('GET /users shows each change at once, of any process', async () => {
  const { http, databaseUrl } = await openTestApp({ users: someNamed('Ann', 'Bea') })
  const names = async (query = '') => namesOf((await http.get(`/users${query}`)).body).join()
  expect([await names(), await names('?')]).toEqual(['Ann,Bea', 'Ann,Bea'])
  await http.put('/users/2').send({ user: { name: 'Cid' } })
  expect([await names(), await names('?sort=-id')]).toEqual(['Ann,Cid', 'Cid,Ann'])
  await executeSql(databaseUrl, `UPDATE users SET name = 'Dan' WHERE id = 2`)
  expect([await names(), await names('?sort=-id')]).toEqual(['Ann,Dan', 'Dan,Ann'])
})

const NAMES = ['Ada Lovelace', 'Zoë Ångström', '王小明', 'Straße']

const many = shareTestApp({ users: someNamed(...NAMES) })

const few = shareTestApp({ users: someNamed('Ann', 'Bob') })

const asked = (q: string) => `/users?q=${encodeURIComponent(q)}`

test.each([
  ['lov ada', ['Ada Lovelace']],
  ['ZOE', ['Zoë Ångström']],
  ['zoë angstrom', ['Zoë Ångström']],
  ['strasse', ['Straße']],
  ['王小', ['王小明']],
  ['小', []],
  ['lace', []],
  ['example', NAMES],
  ['ada zoe', []],
])('GET /users finds %j by the beginnings of its words', async (q, names) => {
  const { body, headers } = await many.http.get(`${asked(q)}&count=true`)
  expect([namesOf(body), headers['x-total-count']]).toEqual([names, String(names.length)])
})

test('GET /users with q goes with sort, filters, count, envelope and pages, and Link keeps it', async () => {
  const { http } = await openTestApp({ users: someNamed('Ann B', 'Bob', 'Ann A', 'Anne C', 'Ann') })
  const first = await http.get('/users?q=ann+EXAM&sort=-name&per_page=2&count=true&envelope=true')
  expect(first.body).toMatchObject({ page: 1, has_more: true, total_count: 4 })
  expect(namesOf(first.body.data)).toEqual(['Anne C', 'Ann B'])
  const { next = '' } = linksOf(first.headers.link)
  expect(new URL(next, 'http://x').searchParams.get('q')).toBe('ann EXAM')
  const second = await http.get(next)
  expect(namesOf(second.body.data)).toEqual(['Ann A', 'Ann'])
  expect(second.body).toMatchObject({ has_more: false, total_count: 4 })
  expect(namesOf((await http.get('/users?q=ann&per_page=3&page=2')).body)).toEqual(['Ann'])
  expect(namesOf((await http.get('/users?q=ann&name=ANN')).body)).toEqual(['Ann'])
  expect((await http.get('/users?q=ann&created_after=2999-01-01T00:00:00Z')).body).toEqual([])
})

test.each([
  ['', 'is empty'],
  ['%00', 'has no letter and no digit'],
  ['%F0%9F%98%80', 'has no letter and no digit'],
  ['a+b+c+d+e+f+g+h+i', 'has too many words (maximum is 8 words)'],
  ['x'.repeat(65), 'has a word that is too long (maximum is 64 characters)'],
  ['%C3%9F'.repeat(33), 'has a word that is too long (maximum is 64 characters)'],
  ['+x'.repeat(2500), 'is too long (maximum is 4096 characters)'],
  ['%ED%A0%80', 'cannot be decoded'],
  ['a&q=b', 'is given more than once'],
])('GET /users rejects ?q=%s', async (q, message) => {
  const { body } = await few.http.get(`/users?q=${q}`).expect(400)
  expect(body).toMatchObject({ reason: 'query_invalid', errors: { q: [message] } })
})

test.each([
  ...['ann*', '"ann"', '-ann', '^ann', 'ann\\', '%ann%', '(ann', 'ann"', '\0ann'],
  ...['\u202eann', 'ann\u0301', `ann${' '.repeat(3000)}`],
])('GET /users takes what is not of a word in %j for what is between words', async q => {
  expect(namesOf((await few.http.get(asked(q))).body)).toEqual(['Ann'])
})

test.each(['ann OR bob', 'NOT ann', 'NEAR(ann bob)', '{name}:ann', "ann'); DROP TABLE users; --"])(
  'GET /users takes the operators in %j for words',
  async q => {
    expect((await few.http.get(asked(q)).expect(200)).body).toEqual([])
    expect((await few.http.get('/users')).body).toHaveLength(2)
  },
)
