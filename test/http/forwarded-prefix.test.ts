import express from 'express'
import supertest from 'supertest'
import { expect, onTestFinished, test } from 'vitest'
import { createUserRecords, type UserRecordsSettings } from '../../src/library.ts'
import { newUserBody } from '../support/builders.ts'

const ACCOUNTS = '/accounts'

/** The service in memory, with two users and, unless the settings say otherwise, behind one proxy. */
async function open(settings: UserRecordsSettings = {}) {
  const records = await createUserRecords({ DATABASE_URL: ':memory:', TRUST_PROXY: 1, ...settings })
  onTestFinished(() => records.close())
  const http = supertest(records.app)
  for (let count = 0; count < 2; count++) await http.post('/users').send(newUserBody()).expect(201)
  return { records, http }
}

/** What each response puts before the paths in it, through a proxy that sends this X-Forwarded-Prefix. */
async function prefixesOf(http: ReturnType<typeof supertest>, sent: string, path = '') {
  const get = (at: string, accept = '*/*') =>
    http.get(path + at).set({ Accept: accept, 'X-Forwarded-Prefix': sent })
  const created = await http
    .post(`${path}/users`)
    .set('X-Forwarded-Prefix', sent)
    .send(newUserBody())
    .expect(201)
  const list = await get('/users?per_page=1')
  const changes = await get('/users/changes?limit=1')
  const home = await get('/')
  const page = await get('/', 'text/html')
  const problem = await get('/users/7', 'application/problem+json')
  const document = await get('/openapi.json')
  const before = (text: string | undefined, end: string) => text?.split(end)[0]
  return new Set([
    before(created.headers.location, '/users/'),
    before(list.headers.link, '/users?')?.replace('<', ''),
    before(changes.headers.link, '/users/changes?')?.replace('<', ''),
    ...[home.body.docs, home.body.users].map(to => before(to, '/docs')?.replace(/\/users$/, '')),
    ...Array.from(page.text.matchAll(/(?:href|src)="([^"]*?)\/(?:docs|users)\b/g), ([, to]) =>
      to?.replaceAll('&amp;', '&'),
    ),
    before(problem.body.instance, '/users/'),
    document.body.servers[0].url.replace(/^\/$/, ''),
  ])
}

test.each([
  [ACCOUNTS, ACCOUNTS],
  ['/accounts/', ACCOUNTS],
  ['/a/b.c~d/e%20f', '/a/b.c~d/e%20f'],
  [`/x>;rel="next"<'&$\`{y}?z#%zz\\`, `/x%3E;rel=%22next%22%3C'&$%60%7By%7D%3Fz%23%25zz%5C`],
])('X-Forwarded-Prefix: %s of a trusted proxy begins every path as %s', async (sent, shown) => {
  const { http } = await open()
  expect(await prefixesOf(http, sent)).toEqual(new Set([shown]))
})

test.each([
  'accounts',
  '/',
  '//evil.example',
  '/a//b',
  '/a, /b',
  '/a,/b',
  'https://evil.example',
  '',
])('X-Forwarded-Prefix: %s, which is not one path, is ignored', async sent => {
  const { http } = await open()
  expect(await prefixesOf(http, sent)).toEqual(new Set(['']))
})

test.each([{}, { TRUST_PROXY: 0 }, { TRUST_PROXY: '203.0.113.7' }])(
  'X-Forwarded-Prefix is ignored with %j, which does not trust the client',
  async trust => {
    const { http } = await open({ TRUST_PROXY: undefined, ...trust })
    expect(await prefixesOf(http, ACCOUNTS)).toEqual(new Set(['']))
  },
)

test('X-Forwarded-Prefix stands before the path of a mount', async () => {
  const { records } = await open()
  const http = supertest(express().use('/api', records.app))
  expect(await prefixesOf(http, ACCOUNTS, '/api')).toEqual(new Set(['/accounts/api']))
})
