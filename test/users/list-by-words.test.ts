import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'

function appWith(...names: string[]): Promise<TestApp> {
  return openTestApp({ users: names.map(name => newUserBody({ name })) })
}

const few = shareTestApp({ users: [newUserBody({ name: 'Ann' }), newUserBody({ name: 'Bob' })] })

function namesOf(body: readonly { readonly name: string }[]): string[] {
  return body.map(({ name }) => name)
}

const asked = (q: string) => `/users?q=${encodeURIComponent(q)}`

test('GET /users finds by the beginnings of words, in any order, without case and accents', async () => {
  const { http } = await appWith('Ada Lovelace', 'Zoë Ångström', '王小明', 'Straße')
  for (const [q, names] of [
    ['lov ada', ['Ada Lovelace']],
    ['ZOE', ['Zoë Ångström']],
    ['zoë angstrom', ['Zoë Ångström']],
    ['strasse', ['Straße']],
    ['王小', ['王小明']],
    ['小', []],
    ['lace', []],
    ['example', ['Ada Lovelace', 'Zoë Ångström', '王小明', 'Straße']],
    ['ada zoe', []],
  ] as const) {
    const response = await http.get(`${asked(q)}&count=true`)
    expect(response.status).toBe(200)
    expect([q, namesOf(response.body)]).toEqual([q, names])
    expect(response.headers['x-total-count']).toBe(String(names.length))
  }
})

test('GET /users with q goes with sort, filters, count, envelope and pages, and Link keeps it', async () => {
  const { http } = await appWith('Ann B', 'Bob', 'Ann A', 'Anne C', 'Ann')
  const first = await http.get('/users?q=ann+EXAM&sort=-name&per_page=2&count=true&envelope=true')
  expect(first.body).toMatchObject({ page: 1, has_more: true, total_count: 4 })
  expect(namesOf(first.body.data)).toEqual(['Anne C', 'Ann B'])
  const next = /<([^>]*)>; rel="next"/.exec(first.headers.link ?? '')?.[1] ?? ''
  expect(new URL(next, 'http://x').searchParams.get('q')).toBe('ann EXAM')
  const second = await http.get(next)
  expect(namesOf(second.body.data)).toEqual(['Ann A', 'Ann'])
  expect(second.body).toMatchObject({ has_more: false, total_count: 4 })
  const byNumber = await http.get('/users?q=ann&per_page=3&page=2')
  expect(namesOf(byNumber.body)).toEqual(['Ann'])
  expect(byNumber.headers.link).toContain('q=ann')
  expect(namesOf((await http.get('/users?q=ann&name=ANN')).body)).toEqual(['Ann'])
  expect(namesOf((await http.get('/users?q=ann&created_after=2999-01-01T00:00:00Z')).body)).toEqual(
    [],
  )
})

test('GET /users with q has an ETag that changes with the users', async () => {
  const { http } = await appWith('Ann')
  const { etag = '' } = (await http.get('/users?q=ann')).headers
  await http.get('/users?q=ann').set('If-None-Match', etag).expect(304)
  await http
    .put('/users/1')
    .send({ user: { name: 'Bea' } })
    .expect(200)
  const changed = await http.get('/users?q=ann').set('If-None-Match', etag)
  expect(changed.status).toBe(200)
  expect(changed.body).toEqual([])
  expect(namesOf((await http.get('/users?q=bea')).body)).toEqual(['Bea'])
  await http.delete('/users/1').expect(204)
  expect((await http.get('/users?q=bea')).body).toEqual([])
})

test.each([
  ['', 'is empty'],
  ['%20', 'has no letter and no digit'],
  ['*', 'has no letter and no digit'],
  ['%00', 'has no letter and no digit'],
  ['%F0%9F%98%80', 'has no letter and no digit'],
  ['a+b+c+d+e+f+g+h+i', 'has too many words (maximum is 8 words)'],
  ['x'.repeat(65), 'has a word that is too long (maximum is 64 characters)'],
  ['+x'.repeat(2500), 'is too long (maximum is 4096 characters)'],
  ['%ED%A0%80', 'cannot be decoded'],
  ['a&q=b', 'is given more than once'],
])('GET /users rejects ?q=%s', async (q, message) => {
  const response = await few.http.get(`/users?q=${q}`)
  expect(response.status).toBe(400)
  expect(response.body).toMatchObject({ reason: 'query_invalid', errors: { q: [message] } })
})

test('GET /users takes operators, quotes and wildcards for what is between words', async () => {
  const { http } = few
  const odd = [
    ...['ann*', '"ann"', 'ann OR bob', 'ann AND bob', 'NOT ann', 'NEAR(ann bob)', '{name}:ann'],
    ...['-ann', '^ann', "ann'); DROP TABLE users; --", 'ann\\', '%ann%', '_nn', '(ann', 'ann"'],
    ...['" OR "', 'ann:bob', "'", '\0ann', 'ann\ud800'.toWellFormed?.() ?? 'ann', '\u202eann'],
    ...['ann\u0301', '<script>', `ann${' '.repeat(3000)}`],
  ]
  for (const q of odd) {
    const { status, body } = await http.get(asked(q))
    const isWord = /[\p{L}\p{N}]/u.test(q)
    expect([q, status]).toEqual([q, isWord ? 200 : 400])
    if (isWord && /ann/.test(q) && !/bob|not|near|name|drop/i.test(q)) {
      expect([q, namesOf(body)]).toEqual([q, ['Ann']])
    }
  }
  expect((await http.get('/users')).body).toHaveLength(2)
  const long = await http.get(asked('ann '.repeat(25_000)))
  expect([400, 414, 431]).toContain(long.status)
})
