import { createServer, type RequestListener } from 'node:http'
import express from 'express'
import { expect, onTestFinished, test } from 'vitest'
import { createUserRecords, type UserRecordsSettings } from '../../src/library.ts'
import { newUserBody } from '../support/builders.ts'
import { listen } from '../support/listen.ts'
import { AS_JSON, askRaw } from '../support/raw-http.ts'

const ACCOUNTS = '/accounts'

/** The service in memory, unless the settings say otherwise behind one proxy. */
async function open(settings: UserRecordsSettings = {}) {
  const records = await createUserRecords({ DATABASE_URL: ':memory:', TRUST_PROXY: 1, ...settings })
  onTestFinished(() => records.close())
  return records.app
}

interface Asked {
  /** The X-Forwarded-Prefix of a proxy. */
  readonly sent?: string
  /** Where the application is mounted, as the client writes it. */
  readonly path?: string
}

/** What each response of an application puts before the paths in it. */
async function prefixesOf(app: RequestListener, { sent, path = '' }: Asked) {
  const port = await listen(createServer(app))
  const prefix = sent === undefined ? {} : { 'X-Forwarded-Prefix': sent }
  const get = (at: string, accept = '*/*') =>
    askRaw(port, `GET ${path}${at}`, { Accept: accept, ...prefix })
  const create = () =>
    askRaw(port, `POST ${path}/users`, { ...AS_JSON, ...prefix }, JSON.stringify(newUserBody()))
  await create()
  const created = await create()
  const list = await get('/users?per_page=1')
  const changes = await get('/users/changes?limit=1')
  const home = JSON.parse((await get('/')).body)
  const page = await get('/', 'text/html')
  const problem = await get('/users/777', 'application/problem+json')
  const document = await get('/openapi.json')
  expect(list.headers.link?.split('>')).toHaveLength(2)
  const before = (text: string | undefined, end: string) => text?.split(end)[0]
  return new Set([
    before(created.headers.location, '/users/'),
    before(list.headers.link, '/users?')?.replace('<', ''),
    before(changes.headers.link, '/users/changes?')?.replace('<', ''),
    ...[home.docs, home.users].map(to => before(to, '/docs')?.replace(/\/users$/, '')),
    ...Array.from(page.body.matchAll(/(?:href|src)="([^"]*?)\/(?:docs|users)\b/g), ([, to]) =>
      to?.replaceAll('&amp;', '&'),
    ),
    before(JSON.parse(problem.body).instance, '/users/'),
    JSON.parse(document.body).servers[0].url.replace(/^\/$/, ''),
  ])
}

const STRANGE = `/x>;rel="next"<'&$\`{y}`
const ENCODED = `/x%3E;rel=%22next%22%3C'&$%60%7By%7D`

test.each([
  [ACCOUNTS, ACCOUNTS],
  ['/accounts/', ACCOUNTS],
  ['/a/b.c~d/e%20f', '/a/b.c~d/e%20f'],
  [`${STRANGE}?z#%zz\\`, `${ENCODED}%3Fz%23%25zz%5C`],
])('X-Forwarded-Prefix: %s of a trusted proxy begins every path as %s', async (sent, shown) => {
  expect(await prefixesOf(await open(), { sent })).toEqual(new Set([shown]))
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
  expect(await prefixesOf(await open(), { sent })).toEqual(new Set(['']))
})

test.each([{}, { TRUST_PROXY: 0 }, { TRUST_PROXY: '203.0.113.7' }])(
  'X-Forwarded-Prefix is ignored with %j, which does not trust the client',
  async trust => {
    const app = await open({ TRUST_PROXY: undefined, ...trust })
    expect(await prefixesOf(app, { sent: ACCOUNTS })).toEqual(new Set(['']))
  },
)

test.each([
  ['/api', '/api'],
  ['/a%20b', '/a%20b'],
  [STRANGE, ENCODED],
  ['//evil.example', '/.//evil.example'],
  // A gateway decodes it.
  ['/encoded', '/%F0%9F%98%80'],
])(
  'the path of a mount that a client writes as %s begins every path as %s',
  async (path, shown) => {
    const app = await open()
    const parent = express()
      .use((request, _response, next) => {
        request.url = request.url.replace('/encoded', '/\u{1f600}')
        next()
      })
      .use(['/:tenant', /^\/\/evil\.example/], app)
    expect(await prefixesOf(parent, { path })).toEqual(new Set([shown]))
  },
)

test('each path of an application that is mounted twice begins its own paths, behind X-Forwarded-Prefix', async () => {
  const app = await open()
  const parent = express().use('/one', app).use('/two/deep', app)
  for (const path of ['/one', '/two/deep', '/one']) {
    for (const sent of [undefined, ACCOUNTS]) {
      const asked = { path, ...(sent && { sent }) }
      expect(await prefixesOf(parent, asked)).toEqual(new Set([`${sent ?? ''}${path}`]))
    }
  }
})
