import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { linksOf } from '../support/list-pages.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { shareTestApp } from '../support/shared-app.ts'

function appWith(...names: string[]): Promise<TestApp> {
  return openTestApp({ users: names.map(name => newUserBody({ name })) })
}

const few = shareTestApp({ users: [newUserBody({ name: 'Ann' }), newUserBody({ name: 'Bob' })] })

const NAMES = ['Ada Lovelace', 'Zoë Ångström', '王小明', 'Straße']

const many = shareTestApp({ users: NAMES.map(name => newUserBody({ name })) })

function namesOf(body: readonly { readonly name: string }[]): string[] {
  return body.map(({ name }) => name)
}

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
  const { http } = await appWith('Ann B', 'Bob', 'Ann A', 'Anne C', 'Ann')
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
  const { status, body } = await few.http.get(`/users?q=${q}`)
  expect(status).toBe(400)
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
