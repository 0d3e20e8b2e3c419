import type { Response } from 'supertest'
import { describe, expect, test } from 'vitest'
import { type ManagedApp, openManagedApp } from '../../support/management-requests.ts'
import { temporaryFolder } from '../../support/open-test-app.ts'
import { run } from '../../support/spawn-service.ts'

const LIMITS = {
  bans: [
    { name: 'login', path: '/login', maxretry: 5, findtime: '1 minute', bantime: '1 hour' },
    { name: 'probing', path: '/wp*', maxretry: 3, findtime: '1 minute', bantime: '30 minutes' },
    { name: 'agents', path: '/x', by: 'header:User-Agent', maxretry: 3, findtime: 60, bantime: 60 },
    { name: 'pairs', path: '/x', by: ['ip', 'path'], maxretry: 3, findtime: 60, bantime: 60 },
    { name: 'tried', path: '/x', maxretry: 3, findtime: 60, bantime: 60, dryRun: true },
  ],
}

const A = '192.0.2.1'

async function add(app: ManagedApp, ban: object): Promise<Record<string, string>> {
  const { status, body } = await app.ops.post('/bans').send({ ban })
  expect([status, body]).toEqual([201, expect.anything()])
  return body
}

/** What is left of a ban, in whole minutes. */
function minutesLeft({ ends_at: endsAt = '' }: Record<string, string>): number {
  return Math.round((Date.parse(endsAt) - Date.now()) / 60_000)
}

describe('POST /bans', () => {
  test('bans a client for the bantime of the rule', async () => {
    const app = await openManagedApp({ limits: LIMITS })
    const ban = await add(app, { rule: 'login', client: A })
    expect(ban).toEqual({
      ...{ rule: 'login', client: A },
      ends_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    })
    expect(Object.keys(ban)).toEqual(['rule', 'client', 'ends_at'])
    expect(minutesLeft(ban)).toBe(60)
    expect((await app.ops.get('/bans')).body).toEqual([ban])
  })

  test.each([
    ['2 hours', 120],
    ['5m', 5],
    ['300', 5],
    [300, 5],
    [90.5, 2],
    ['1 day', 1440],
  ])('bans for %j', async (time, minutes) => {
    const app = await openManagedApp({ limits: LIMITS })
    expect(minutesLeft(await add(app, { rule: 'login', client: A, for: time }))).toBe(minutes)
  })

  test('holds from the next request on, until it is lifted', async () => {
    const app = await openManagedApp({ limits: LIMITS, env: { TRUST_PROXY: '1' } })
    const get = (client: string) => app.http.get('/users').set('X-Forwarded-For', client)
    await get(A).expect(200)
    await add(app, { rule: 'login', client: A })
    const { headers } = await get(A).expect(403)
    expect(Number(headers['retry-after'])).toBeGreaterThan(3500)
    await get('192.0.2.2').expect(200)
    await app.ops.get('/bans').set('X-Forwarded-For', A).expect(200)
    await app.ops.delete(`/bans?client=${A}`).expect(200, { lifted: 1 })
    await get(A).expect(200)
  })

  test('replaces an earlier ban of the same client and rule', async () => {
    const app = await openManagedApp({ limits: LIMITS })
    await add(app, { rule: 'login', client: A })
    const ban = await add(app, { rule: 'login', client: A, for: '2 days' })
    expect((await app.ops.get('/bans')).body).toEqual([ban])
  })

  test('bans the client as the rule counts it', async () => {
    const app = await openManagedApp({ limits: LIMITS })
    const banned = []
    for (const [rule, client] of [
      ['login', '2001:db8::1'],
      ['agents', 'curl/8'],
      ['pairs', '["192.0.2.1","/x"]'],
    ]) {
      banned.push((await add(app, { rule, client })).client)
    }
    expect(banned).toEqual(['2001:db8::/56', 'curl/8', '["192.0.2.1","/x"]'])
  })

  test.each<[string, unknown, Record<string, string[]>]>([
    ['no body', undefined, { ban: ['is required'] }],
    ['null', null, { ban: ['is required'] }],
    ['a list', [], { ban: ['is required'] }],
    ['no ban', {}, { ban: ['is required'] }],
    ['a ban of null', { ban: null }, { ban: ['is required'] }],
    ['a ban of another kind', { ban: 'login' }, { ban: ['must be an object'] }],
    ['a list of bans', { ban: [] }, { ban: ['must be an object'] }],
    ['an empty ban', { ban: {} }, { rule: ["can't be blank"], client: ["can't be blank"] }],
    [
      'empty fields',
      { ban: { rule: '', client: '', for: '' } },
      { rule: ["can't be blank"], client: ["can't be blank"], for: [WRONG_TIME()] },
    ],
    [
      'fields of other kinds',
      { ban: { rule: 5, client: ['a'], for: ['1 hour'] } },
      { rule: ['must be a string'], client: ['must be a string'], for: [WRONG_TIME()] },
    ],
    ['a time of 0', { ban: { rule: 'login', client: A, for: 0 } }, { for: [WRONG_TIME()] }],
    ['a negative time', { ban: { rule: 'login', client: A, for: -5 } }, { for: [WRONG_TIME()] }],
    [
      'a time above a year',
      { ban: { rule: 'login', client: A, for: '366 days' } },
      { for: [WRONG_TIME()] },
    ],
    ['no such time', { ban: { rule: 'login', client: A, for: 'soon' } }, { for: [WRONG_TIME()] }],
  ])('answers 422 to %s and names every wrong field', async (_what, body, errors) => {
    const app = await openManagedApp({ limits: LIMITS })
    const request = app.ops.post('/bans')
    const answer = await (body === undefined
      ? request
      : request.set('Content-Type', 'application/json').send(JSON.stringify(body)))
    expect([answer.status, answer.body]).toEqual([
      422,
      {
        ...{ message: 'Validation failed', resource: 'Request', code: 422, status: false },
        ...{ reason: 'validation_failed', errors },
      },
    ])
    expect((await app.ops.get('/bans')).body).toEqual([])
  })

  test.each([
    ['an unknown rule', { rule: 'nobody', client: A }, 'rule'],
    ['the name of a rule of another kind', { rule: 'posts', client: A }, 'rule'],
    ['a rule in dry run', { rule: 'tried', client: A }, 'rule'],
    ['no address', { rule: 'login', client: 'ann' }, 'client'],
    ['no list', { rule: 'pairs', client: A }, 'client'],
    ['a list that is too short', { rule: 'pairs', client: '["192.0.2.1"]' }, 'client'],
  ])('answers 422 to %s', async (_what, ban, field) => {
    const limits = { ...LIMITS, throttle: [{ name: 'posts', limit: 1, period: 60 }] }
    const app = await openManagedApp({ limits })
    const { status, body } = await app.ops.post('/bans').send({ ban })
    expect([status, Object.keys(body.errors)]).toEqual([422, [field]])
    expect((await app.ops.get('/bans')).body).toEqual([])
  })

  test('names a wrong rule and a wrong time together', async () => {
    const app = await openManagedApp({ limits: LIMITS })
    const ban = { rule: 'nobody', client: A, for: 'soon' }
    const { body } = await app.ops.post('/bans').send({ ban }).expect(422)
    expect(Object.keys(body.errors)).toEqual(['rule', 'for'])
  })

  test.each([
    ['without limits', {}],
    ['with CACHE_STORE=none', { limits: LIMITS, env: { CACHE_STORE: 'none' } }],
  ])('answers 422 %s, where no client can be banned', async (_what, options) => {
    const app = await openManagedApp(options)
    const { body } = await app.ops
      .post('/bans')
      .send({ ban: { rule: 'login', client: A } })
      .expect(422)
    expect(Object.keys(body.errors)).toEqual(['rule'])
  })

  test('ignores other members', async () => {
    const app = await openManagedApp({ limits: LIMITS })
    await app.ops
      .post('/bans')
      .send({ ban: { rule: 'login', client: A, endsAt: 5 }, more: true })
      .expect(201)
  })

  test('takes application/json only', async () => {
    const app = await openManagedApp({ limits: LIMITS, env: { BODY_LIMIT: '1kb' } })
    const body = JSON.stringify({ ban: { rule: 'login', client: A } })
    const post = (type: string, text = body) =>
      app.ops.post('/bans').set('Content-Type', type).send(text)
    const types = ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', 'x']
    for (const type of types) expect([type, (await post(type)).status]).toEqual([type, 415])
    await post('application/json', `${body}${' '.repeat(1024)}`).expect(413)
    await post('application/json', '{"ban":').expect(400)
    expect((await app.ops.get('/bans')).body).toEqual([])
  })

  test('names the wrong field in problem+json too', async () => {
    const app = await openManagedApp({ limits: LIMITS })
    const { body, type } = await app.ops
      .post('/bans')
      .set('Accept', 'application/problem+json')
      .send({ ban: { rule: 'login' } })
      .expect(422)
    expect(type).toBe('application/problem+json')
    expect(body).toMatchObject({
      ...{ title: 'Unprocessable Entity', instance: '/bans', reason: 'validation_failed' },
      errors: [{ detail: "can't be blank", pointer: '#/ban/client' }],
    })
  })
})

function WRONG_TIME(): string {
  return 'must be a time such as "1 hour", more than 0 and at most a year'
}

/** Bans of three clients by two rules. */
async function openWithBans(): Promise<ManagedApp> {
  const app = await openManagedApp({ limits: LIMITS })
  for (const rule of ['probing', 'login']) {
    for (const client of ['192.0.2.3', '2001:db8::1', '192.0.2.10'])
      await add(app, { rule, client })
  }
  await add(app, { rule: 'agents', client: 'ann@example.com' })
  return app
}

const CLIENTS = ['192.0.2.10', '192.0.2.3', '2001:db8::/56']

const ALL = [
  ['agents', 'ann@example.com'],
  ...['login', 'probing'].flatMap(rule => CLIENTS.map(client => [rule, client])),
]

type Listed = readonly { readonly rule: string; readonly client: string }[]

const pairsOf = (bans: Listed) => bans.map(({ rule, client }) => [rule, client])

describe('GET /bans', () => {
  test('has a ban that a client has just earned', async () => {
    const app = await openManagedApp({ limits: LIMITS, env: { TRUST_PROXY: '1' } })
    for (const last of [1, 2, 3, 4, 5, 6]) {
      const client = `192.0.2.${last}`
      for (let strike = 0; strike < 3; strike++)
        await app.http.get('/wp-login').set('X-Forwarded-For', client)
      const { body } = await app.ops.get(`/bans?client=${client}`).expect(200)
      expect(body).toMatchObject([{ rule: 'probing', client }])
    }
  })

  test('answers with an empty list without bans, and without limits', async () => {
    for (const limits of [LIMITS, undefined]) {
      const { ops } = await openManagedApp(limits && { limits })
      const { status, body, headers } = await ops.get('/bans')
      expect([status, body, headers.link]).toEqual([200, [], undefined])
      expect(headers['cache-control']).toBe('no-store')
    }
  })

  test('lists the bans in force by rule and client', async () => {
    const { ops } = await openWithBans()
    const { body, headers } = await ops.get('/bans').expect(200)
    expect([pairsOf(body), headers.link]).toEqual([ALL, undefined])
    const head = await ops.head('/bans').expect(200)
    expect(head.headers['content-length']).toBe(headers['content-length'])
  })

  test.each([
    ['rule=login', ALL.slice(1, 4)],
    ['rule=nobody', []],
    ['client=192.0.2.3', [ALL[2], ALL[5]]],
    ['client=2001:db8::1', [ALL[3], ALL[6]]],
    ['client=2001:DB8:0:0:ff::9', [ALL[3], ALL[6]]],
    ['client=2001:db8::%2F56', [ALL[3], ALL[6]]],
    ['client=ann%40example.com', [ALL[0]]],
    ['client=%22ann%40example.com%22', [ALL[0]]],
    ['client=192.0.2', []],
    ['rule=probing&client=192.0.2.10', [ALL[4]]],
  ])('with %s lists only those', async (query, pairs) => {
    const { ops } = await openWithBans()
    expect(pairsOf((await ops.get(`/bans?${query}`).expect(200)).body)).toEqual(pairs)
  })

  test.each([1, 2, 3, 6, 7])('per_page=%i walks through all by next', async perPage => {
    const { ops } = await openWithBans()
    const pages: Listed[] = []
    for (let path: string | undefined = `/bans?per_page=${perPage}`; path !== undefined; ) {
      const answer: Response = await ops.get(path).expect(200)
      const { body, headers } = answer
      pages.push(body)
      path = /^<(\/bans\?per_page=\d&after=[\w-]+)>; rel="next"$/.exec(headers.link ?? '')?.[1]
    }
    expect(pairsOf(pages.flat())).toEqual(ALL)
    expect(pages.map(page => page.length)).toEqual(
      Array.from({ length: Math.ceil(7 / perPage) }, (_, page) =>
        Math.min(perPage, 7 - page * perPage),
      ),
    )
  })

  test('next keeps the filters, and goes on where the last ban was, also if it is lifted', async () => {
    const { ops } = await openWithBans()
    const first = await ops.get('/bans?rule=login&per_page=2')
    expect(first.headers.link).toMatch(/^<\/bans\?rule=login&per_page=2&after=[\w-]+>; rel="next"$/)
    const [, next = ''] = /<(.*)>/.exec(first.headers.link ?? '') ?? []
    await ops.delete('/bans?rule=login&client=192.0.2.3').expect(200, { lifted: 1 })
    const second = await ops.get(next)
    expect(pairsOf(second.body)).toEqual([ALL[3]])
    expect(second.headers.link).toBeUndefined()
    const rest = await ops.get(next.replace('rule=login&per_page=2&', ''))
    expect(pairsOf(rest.body)).toEqual(ALL.slice(3))
  })

  test('a ban that has ended is not listed', async () => {
    const app = await openManagedApp({ limits: LIMITS })
    const ban = await add(app, { rule: 'login', client: A, for: 0.001 })
    const left = Date.parse(ban.ends_at ?? '') - Date.now()
    await new Promise(resolve => setTimeout(resolve, Math.max(0, left) + 20))
    expect((await app.ops.get('/bans')).body).toEqual([])
    await app.ops.delete('/bans?all=true').expect(200, { lifted: 0 })
  })

  test.each([
    ['page=1', { page: ['is unknown'] }],
    ['Rule=login', { Rule: ['is unknown'] }],
    ['all=true', { all: ['is unknown'] }],
    ['=x', { '': ['is unknown'] }],
    ['__proto__=x', { ['__proto__']: ['is unknown'] }],
    ['rule=', { rule: ['is empty'] }],
    ['client', { client: ['is empty'] }],
    ['after=', { after: ['is empty'] }],
    ['rule=a&rule=a', { rule: ['is given more than once'] }],
    ['client=%ff', { client: ['cannot be decoded'] }],
    ['per_page=0', { per_page: ['must be a whole number from 1 to 1000'] }],
    ['per_page=1001', { per_page: ['must be a whole number from 1 to 1000'] }],
    ['per_page=1e2', { per_page: ['must be a whole number from 1 to 1000'] }],
    ['after=x', { after: ['is not a cursor of this list'] }],
    [
      'after=x&per_page=0',
      {
        per_page: ['must be a whole number from 1 to 1000'],
        after: ['is not a cursor of this list'],
      },
    ],
    ['after=AAAAAAAAAAAAAAAA', { after: ['is not a cursor of this list'] }],
    [
      'per_page=-1&rule=&x=1',
      {
        ...{ rule: ['is empty'], per_page: ['must be a whole number from 1 to 1000'] },
        x: ['is unknown'],
      },
    ],
  ])('?%s is 400 and names what is wrong', async (query, errors) => {
    const { ops } = await openManagedApp({ limits: LIMITS })
    const { status, body } = await ops.get(`/bans?${query}`)
    expect([status, body.reason]).toEqual([400, 'query_invalid'])
    expect(JSON.parse(JSON.stringify(body.errors))).toEqual(JSON.parse(JSON.stringify(errors)))
  })

  test('a cursor that does not decode is 400', async () => {
    const { ops } = await openWithBans()
    const { headers } = await ops.get('/bans?per_page=2')
    const [, cursor = ''] = /after=([\w-]+)/.exec(headers.link ?? '') ?? []
    await ops.get(`/bans?after=${cursor}`).expect(200)
    const payloads = ['[]', '{}', 'null', '["login"]', '["login", 1]', '["login", "a", "b"]']
    const others = payloads.map(payload => Buffer.from(payload).toString('base64url'))
    for (const text of [cursor.slice(1), cursor.slice(0, -1), cursor.toLowerCase(), ...others]) {
      const { status } = await ops.get(`/bans?after=${text}`)
      expect([text, status]).toEqual([text, 400])
    }
  })
})

describe('DELETE /bans', () => {
  test.each([
    ['rule=login', 3],
    ['client=192.0.2.3', 2],
    ['client=2001:db8::7', 2],
    ['rule=login&client=192.0.2.3', 1],
    ['rule=login&client=ann%40example.com', 0],
    ['rule=nobody', 0],
    ['client=192.0.2.99', 0],
    ['all=true', 7],
  ])('?%s lifts those and no others', async (query, lifted) => {
    const { ops } = await openWithBans()
    await ops.delete(`/bans?${query}`).expect(200, { lifted })
    expect((await ops.get('/bans')).body).toHaveLength(7 - lifted)
    await ops.delete(`/bans?${query}`).expect(200, { lifted: 0 })
  })

  test.each([
    ['', { all: ['must be true if neither rule nor client is given'] }],
    ['all=false', { all: ['must be true'] }],
    ['all=TRUE', { all: ['must be true'] }],
    ['all=', { all: ['is empty'] }],
    ['all=true&rule=login', { all: ['cannot be given together with rule or client'] }],
    ['all=true&client=192.0.2.1', { all: ['cannot be given together with rule or client'] }],
    ['rule=', { rule: ['is empty'] }],
    ['rule=login&rule=probing', { rule: ['is given more than once'] }],
    ['rule=login&per_page=1', { per_page: ['is unknown'] }],
    ['rules=login', { all: expect.anything(), rules: ['is unknown'] }],
  ])('?%s is 400 and lifts nothing', async (query, errors) => {
    const { ops } = await openWithBans()
    const { status, body } = await ops.delete(`/bans?${query}`)
    expect([status, body.errors]).toEqual([400, errors])
    expect((await ops.get('/bans')).body).toHaveLength(7)
  })

  test('ignores a body, and asks for no Accept', async () => {
    const { ops } = await openWithBans()
    await ops.delete('/bans?rule=login').send({ all: true }).expect(200, { lifted: 3 })
    await ops.delete('/bans?rule=probing').set('Accept', 'text/html').expect(200, { lifted: 3 })
  })
})

test('the bans commands and the port say the same', async () => {
  const app = await openWithBans()
  const { body } = await app.ops.get('/bans')
  const env = { DATABASE_URL: app.databaseUrl }
  const { stdout } = await run({ cwd: temporaryFolder(), env, args: ['bans', 'list', '--json'] })
  const printed = JSON.parse(stdout)
  const sorted = (bans: Listed) => bans.map(ban => JSON.stringify(ban)).toSorted()
  expect(sorted(printed)).toEqual(sorted(body))
})

test('/bans and /limits know their methods and types', async () => {
  const { ops } = await openManagedApp({ limits: LIMITS })
  const allowed = { '/bans': 'GET, HEAD, POST, DELETE, OPTIONS', '/limits': 'GET, HEAD, OPTIONS' }
  for (const [path, allow] of Object.entries(allowed)) {
    await ops.put(path).expect(405).expect('Allow', allow)
    await ops.options(path).expect(204).expect('Allow', allow)
    await ops.get(path).set('Accept', 'text/html').expect(406)
    await ops.get(`${path}/`).expect(404)
    await ops.get(path.toUpperCase()).expect(404)
  }
  await ops.get('/limits/reload').expect(405).expect('Allow', 'POST, OPTIONS')
  await ops.get('/%zz').expect(400)
})
