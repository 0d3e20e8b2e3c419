import type { IncomingMessage } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { withKeyStore } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { countStatements } from '../support/count-statements.ts'
import { byEngine } from '../support/engine.ts'
import { hurryPolls } from '../support/global-timers.ts'
import { insertManyUsers, LONG_END } from '../support/many-users.ts'
import { openResponse } from '../support/open-response.ts'
import { openTestApp, type TestApp, temporaryFolder } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { runCommand } from '../support/run-command.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql, selectRows } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'

hurryPolls()

interface Entry {
  readonly id: number
  readonly user: { readonly name: string } | null
  readonly deleted_at?: string
}

interface Page {
  readonly data: readonly Entry[]
  readonly has_more: boolean
  readonly next: string
}

const PATH = '/users/changes'

const A_TIME = expect.stringMatching(/^\d{4}-.*:\d\d\.\d{3}Z$/)

async function read(app: TestApp, query = ''): Promise<Page> {
  return (await app.http.get(`${PATH}?${query}`).expect(200)).body
}

/** A request that waits for a change. It is sent at once. */
async function wait({ http }: TestApp, after: string): Promise<Page> {
  return (await http.get(`${PATH}?after=${after}&wait=60`)).body
}

/** SQL that adds users as another process does, at once. */
function insertJoes(count: number): string {
  const time = `'2026-01-31T12:00:00.000Z'`
  const rows = Array.from({ length: count }, () => {
    return `('Joe', 'joe', '${newUserBody().user.email}', ${time}, ${time})`
  })
  return `INSERT INTO users (name, name_lower, email, created_at, updated_at) VALUES ${rows}`
}

/** Follows the feed to its end: the copy of a follower, the cursor, and the entries in their order. */
async function follow(app: TestApp, after?: string, limit = 100) {
  const copy = new Map<number, unknown>()
  const entries: Entry[] = []
  let next = after
  for (;;) {
    const page: Page = await read(
      app,
      `limit=${limit}${next === undefined ? '' : `&after=${next}`}`,
    )
    for (const entry of page.data) {
      entries.push(entry)
      if (entry.user === null) copy.delete(entry.id)
      else copy.set(entry.id, entry.user)
    }
    next = page.next
    if (!page.has_more) return { copy, entries, next }
  }
}

async function create(app: TestApp, name = 'Ann') {
  return (await app.http.post('/users').send(newUserBody({ name })).expect(201)).body
}

/** The end of the feed, once all that was written before is shown. */
async function settle(app: TestApp): Promise<string> {
  const { id } = await create(app)
  return until(async () => {
    const { copy, next } = await follow(app)
    return copy.has(id) && next
  })
}

/** On PostgreSQL a change is hidden while another transaction of that server writes. */
async function untilShown(app: TestApp, after: string, count: number): Promise<Page> {
  return until(async () => {
    const page = await read(app, `after=${after}`)
    return page.data.length >= count && page
  })
}

test('a user that is gone without a recorded deletion is told as deleted when that is found', async () => {
  const app = await openTestApp()
  const { next } = await follow(app)
  await create(app)
  const { id } = await create(app)
  await executeSql(
    app.databaseUrl,
    byEngine({
      sqlite: 'DROP TRIGGER users_deleted; DELETE FROM users WHERE id = 1',
      postgres: 'ALTER TABLE users DISABLE TRIGGER ALL; DELETE FROM users WHERE id = 1',
    }),
  )
  const { data } = await untilShown(app, next, 2)
  const deletion = { id: 1, user: null, deleted_at: A_TIME }
  expect(data).toEqual([deletion, { id, user: expect.anything() }])
})

test('a user that another program gives another id is told as deleted under the former one', async () => {
  const app = await openTestApp()
  const users = [await create(app), await create(app, 'Bob')]
  const { next } = await follow(app)
  // The second gets a free id, and the first that of the second.
  for (const [from, to] of [
    [2, 900],
    [1, 2],
  ]) {
    await executeSql(app.databaseUrl, `UPDATE users SET id = ${to} WHERE id = ${from}`)
  }
  await settle(app)
  const { copy, entries } = await follow(app, next)
  expect([copy.get(2), copy.get(900)]).toEqual([
    { ...users[0], id: 2 },
    { ...users[1], id: 900 },
  ])
  const deletions = entries.filter(({ user }) => user === null)
  expect(deletions).toEqual([{ id: 1, user: null, deleted_at: A_TIME }])
})

test('an empty feed has a cursor, with which it goes on', async () => {
  const app = await openTestApp()
  const { headers, body } = await app.http.get(PATH).expect(200)
  expect(body).toEqual({ data: [], has_more: false, next: expect.stringMatching(/^[\w-]+$/) })
  expect(headers.link).toBe(`<${PATH}?after=${body.next}>; rel="next"`)
  const user = await create(app)
  expect((await untilShown(app, body.next, 1)).data).toEqual([{ id: user.id, user }])
})

test('after=now skips all earlier changes, and goes on', async () => {
  const app = await openTestApp()
  const empty = { data: [], has_more: false, next: expect.stringMatching(/^[\w-]+$/) }
  expect(await read(app, 'after=now')).toEqual(empty)
  await settle(app)
  const body = await read(app, 'after=now')
  expect(body).toEqual(empty)
  const bob = await create(app, 'Bob')
  expect((await untilShown(app, body.next, 1)).data).toEqual([{ id: bob.id, user: bob }])
  // A stream that ends before its first event would lose what comes before the next one begins.
  const stream = app.http.get(`${PATH}?after=now`).set('Accept', 'text/event-stream')
  expect((await stream.expect(400)).body.errors).toEqual({ after: ['is not a cursor of changes'] })
})

describe('the feed', () => {
  const app = shareTestApp()

  test('has the latest change of each user, and deletions, in the order of the changes', async () => {
    const next = await settle(app)
    const [ann, bob, cid] = [await create(app), await create(app, 'Bob'), await create(app, 'Cid')]
    const renamed = { user: { name: 'Eve' } }
    await app.http.put(`/users/${ann.id}`).send(renamed).expect(200)
    await app.http.delete(`/users/${bob.id}`).expect(204)
    const eve = (await app.http.get(`/users/${ann.id}`)).body
    const { data, has_more } = await untilShown(app, next, 3)
    expect(has_more).toBe(false)
    expect(data).toEqual([
      { id: cid.id, user: cid },
      { id: ann.id, user: eve },
      { id: bob.id, user: null, deleted_at: A_TIME },
    ])
    expect(JSON.stringify(data)).not.toMatch(/password|digest/)
  })

  test('shows a change that changes nothing, a second deletion and an upgraded digest as no change', async () => {
    const body = newUserBody({ password: 'correct horse' })
    const { id, name, email } = (await app.http.post('/users').send(body)).body
    const gone = await create(app)
    await app.http.delete(`/users/${gone.id}`)
    const since = await settle(app)
    await app.http.put(`/users/${id}`).send({ user: { name, email, password: 'correct horse' } })
    await app.http.delete(`/users/${gone.id}`).expect(404)
    const digest = '$2b$04$abcdefghijklmnopqrstuuQFtXJsFPQiYs5EQIWCwVEV.K4gWlKq2'
    await executeSql(
      app.databaseUrl,
      `UPDATE users SET password_digest = '${digest}' WHERE id = ${id}`,
    )
    const user = await create(app)
    expect((await untilShown(app, since, 1)).data.at(-1)).toEqual({ id: user.id, user })
    const shown = (await read(app, `after=${since}`)).data.map(entry => entry.id)
    expect(shown).not.toContain(id)
  })

  test('shows a new password, which changes updated_at', async () => {
    const { id } = await create(app)
    const { next } = await follow(app)
    const change = { user: { password: 'correct horse' } }
    await app.http.put(`/users/${id}`).send(change).expect(200)
    await until(async () => (await follow(app, next)).entries.some(entry => entry.id === id))
  })

  test.each([1, 2, 1000])('is the same in pages of %i, and Link keeps the limit', async limit => {
    for (let count = 0; count < 3; count++) await create(app)
    await untilPasses(async () => {
      const whole = await follow(app)
      expect(whole.copy.size).toBeGreaterThan(2)
      expect((await follow(app, undefined, limit)).copy).toEqual(whole.copy)
    })
    const { headers } = await app.http.get(`${PATH}?limit=${limit}`).expect(200)
    expect(headers.link).toMatch(
      new RegExp(`^<${PATH}\\?limit=${limit}&after=[\\w-]+>; rel="next"$`),
    )
  })

  test.each([
    ['unknown=1', 'unknown', 'is unknown'],
    ['limit=0', 'limit', 'must be a whole number from 1 to 1000'],
    ['limit=1001', 'limit', 'must be a whole number from 1 to 1000'],
    ['limit=', 'limit', 'is empty'],
    ['limit=1&limit=1', 'limit', 'is given more than once'],
    ['wait=61', 'wait', 'must be a whole number from 0 to 60'],
    ['wait=-1', 'wait', 'must be a whole number from 0 to 60'],
    ['wait=1.5', 'wait', 'must be a whole number from 0 to 60'],
    ['after=', 'after', 'is empty'],
    ['after=abc', 'after', 'is not a cursor of changes'],
    ['after=%zz', 'after', 'cannot be decoded'],
    ['page=1', 'page', 'is unknown'],
  ])('answers 400 to %s', async (query, name, message) => {
    const { body } = await app.http.get(`${PATH}?${query}`).expect(400)
    expect(body).toMatchObject({ resource: 'User', reason: 'query_invalid' })
    expect(body.errors).toEqual({ [name]: [message] })
  })

  test('names every wrong parameter', async () => {
    const { body } = await app.http.get(`${PATH}?after=abc&limit=0&wait=x&page=1`).expect(400)
    expect(Object.keys(body.errors).toSorted()).toEqual(['after', 'limit', 'page', 'wait'])
    const { next } = await read(await openTestApp())
    const expired = await app.http.get(`${PATH}?after=${next}&limit=0`).expect(400)
    expect(expired.body.errors).toEqual({ limit: ['must be a whole number from 1 to 1000'] })
  })

  test('answers 400 to an altered cursor and 410 to one of another database', async () => {
    const { next } = await read(app)
    const altered = `${next.slice(0, -1)}${next.endsWith('A') ? 'B' : 'A'}`
    const middle = next.length >> 1
    for (const wrong of [
      altered,
      next.slice(1),
      `${next}x`,
      next.slice(0, middle) + next.slice(middle + 1),
    ]) {
      await app.http.get(`${PATH}?after=${wrong}`).expect(400)
    }
    const other = await read(await openTestApp())
    const { body } = await app.http.get(`${PATH}?after=${other.next}`).expect(410)
    expect(body).toMatchObject({
      message: 'Start again without a cursor',
      reason: 'cursor_expired',
    })
  })

  test('GET, HEAD and OPTIONS are allowed, other methods are 405', async () => {
    const { headers } = await app.http.options(PATH).expect(204)
    expect(headers.allow).toBe('GET, HEAD, OPTIONS')
    const head = await app.http.head(PATH).expect(200)
    expect(head.headers.link).toMatch(/rel="next"$/)
    for (const method of ['post', 'put', 'patch', 'delete'] as const) {
      expect((await app.http[method](PATH)).headers.allow).toBe('GET, HEAD, OPTIONS')
    }
    const { body } = await app.http.get(PATH).set('Accept', 'image/png').expect(406)
    expect(body.message).toBe('Only application/json or text/event-stream is available')
  })

  test.each([
    ['this process', (to: TestApp) => create(to, 'Joe')],
    ['another one', (to: TestApp) => executeSql(to.databaseUrl, insertJoes(1))],
  ])('wait holds the request until a change of %s', async (_, change) => {
    const since = await settle(app)
    const waiting = wait(app, since)
    await sleep(50)
    await change(app)
    expect((await waiting).data).toMatchObject([{ user: { name: 'Joe' } }])
  })

  test('wait ends with an empty page when its time is over, and is not used where there is something', async () => {
    const next = await settle(app)
    const { data } = await read(app, 'wait=60&limit=1')
    expect(data).toHaveLength(1)
    await until(async () => {
      const { next: since } = await follow(app, next)
      const page = await read(app, `after=${since}&wait=1`)
      return page.data.length === 0 && page.next === since
    })
  })
})

test('a stop answers those who wait at once, and breaks streams off', async () => {
  const app = await openTestApp()
  const { next } = await read(app)
  const waiting = wait(app, next)
  const stream = await openStream(app)
  await stream.until(/retry: 1000\n\n/)
  await sleep(50)
  expect(await app.stop()).toBe(true)
  expect(await waiting).toEqual({ data: [], has_more: false, next })
  await stream.ended
  expect(stream.response.complete).toBe(false)
})

test('who waits and who streams is counted, and no more than MAX_WAITING_REQUESTS may', async () => {
  const app = await openTestApp({ env: { MANAGEMENT_PORT: '0', MAX_WAITING_REQUESTS: '2' } })
  const { next } = await read(app)
  const metrics = async () => (await fetch(`${app.managementUrl}/metrics`)).text()
  const waiting = app.http.get(`${PATH}?after=${next}&wait=60`).then(({ status }) => status)
  const stream = await openStream(app)
  await until(async () => /^change_feed_requests\{state="waiting"\} 1$/m.test(await metrics()))
  expect(await metrics()).toMatch(/^change_feed_requests\{state="streaming"\} 1$/m)
  expect((await read(app, `after=${next}&wait=60`)).data).toEqual([])
  await app.http.get(PATH).set('Accept', 'text/event-stream').expect(503)
  stream.response.destroy()
  await until(async () => /^change_feed_requests\{state="streaming"\} 0$/m.test(await metrics()))
  await create(app)
  expect(await waiting).toBe(200)
})

test('of a burst of streams, no more than MAX_WAITING_REQUESTS are held, and they leave their places', async () => {
  const app = await openTestApp({ env: { MAX_WAITING_REQUESTS: '5' } })
  const streams = await Promise.all(Array.from({ length: 30 }, () => openStream(app)))
  const held = streams.filter(({ response }) => response.statusCode === 200)
  expect(held).toHaveLength(5)
  const refused = streams.filter(({ response }) => response.statusCode === 503)
  await Promise.all(refused.map(({ ended }) => ended))
  expect(refused.map(({ text }) => JSON.parse(text()).reason)).toEqual(Array(25).fill('overloaded'))
  for (const { response } of held) response.destroy()
  await untilPasses(async () => {
    const { response } = await openStream(app)
    expect(response.statusCode).toBe(200)
  })
})

const PAGE_OF_CHANGES = 'FROM user_changes WHERE (changed_in, id) >'

const POLL = 'ORDER BY changed_in DESC'

test('a change is read once for all that wait and stream, whenever they came, and nothing looks like a leak', async () => {
  const warnings: string[] = []
  const onWarning = ({ name }: Error) => void warnings.push(name)
  process.on('warning', onWarning)
  onTestFinished(() => void process.off('warning', onWarning))
  const app = await openTestApp()
  const { next } = await read(app)
  const streams: Stream[] = []
  for (const name of ['A', 'B', 'C']) {
    streams.push(...(await Promise.all(Array.from({ length: 10 }, () => openStream(app)))))
    await create(app, name)
    for (const stream of streams) await stream.until(new RegExp(`"name":"${name}"`))
  }
  const { next: newest } = await untilShown(app, next, 3)
  const waits = Array.from({ length: 30 }, (_, index) =>
    read(app, `after=${newest}&wait=60&limit=${index + 1}`),
  )
  const counting = countStatements()
  await until(() => counting(PAGE_OF_CHANGES) >= 30)
  const before = counting(PAGE_OF_CHANGES)
  for (const name of ['D', 'E', 'F']) {
    await create(app, name)
    for (const stream of streams) await stream.until(new RegExp(`"name":"${name}"`))
  }
  expect((await Promise.all(waits)).map(({ data }) => data[0]?.user?.name)).toEqual(
    waits.map(() => 'D'),
  )
  expect(counting(PAGE_OF_CHANGES) - before).toBeLessThanOrEqual(3 * 4)
  expect(counting(POLL)).toBeLessThan(100)
  expect(warnings).toEqual([])
})

test('changes that came at once are answered to all that wait, each up to its own limit', async () => {
  const app = await openTestApp()
  const { next } = await read(app)
  const limits = [1, 2, 3, 1000]
  const counting = countStatements()
  const stream = await openStream(app, { query: `after=${next}` })
  const waits = limits.map(limit => read(app, `after=${next}&wait=60&limit=${limit}`))
  await until(() => counting(PAGE_OF_CHANGES) > limits.length)
  const before = counting(PAGE_OF_CHANGES)
  await executeSql(app.databaseUrl, insertJoes(3))
  const pages = await Promise.all(waits)
  expect(pages.map(({ data, has_more }) => [data.length, has_more])).toEqual([
    [1, true],
    [2, true],
    [3, false],
    [3, false],
  ])
  await stream.until(/(?:event: user[\s\S]*){3}/)
  expect(counting(PAGE_OF_CHANGES) - before).toBeLessThan(limits.length)
  for (const [index, page] of pages.entries()) {
    const rest = await read(app, `after=${page.next}`)
    expect([...page.data, ...rest.data]).toEqual(pages[3]?.data)
    expect(page).toEqual(await read(app, `after=${next}&limit=${limits[index]}`))
  }
})

test('an idle stream gets a comment every 15 seconds, for which nothing is read', async () => {
  const app = await openTestApp()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const stream = await openStream(app)
  await stream.until(/retry: 1000\n\n/)
  const counting = countStatements()
  for (const comments of [1, 2]) {
    vi.advanceTimersByTime(14_000)
    expect(stream.text()).toBe(`retry: 1000\n\n${':\n\n'.repeat(comments - 1)}`)
    vi.advanceTimersByTime(1000)
    await stream.until(new RegExp(`(?::\n\n){${comments}}$`))
  }
  expect(counting(PAGE_OF_CHANGES)).toBe(0)
})

test.each([
  ['that waits gets an empty page', `?wait=60`, 'application/json', /"data":\[\]/],
  ['with a stream is cut off', '', 'text/event-stream', /^HTTP\/1.1 200 (?![\s\S]*\r\n0\r\n)/],
])(
  'a client %s once it has ended its side, as one that is gone has',
  async (_, query, accept, end) => {
    const app = await openTestApp({})
    const { next } = await read(app)
    const after = query === '' ? '' : `&after=${next}`
    const head = `GET ${PATH}${query}${after} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n`
    const { socket, text } = sendRaw(app.port, `${head}Accept: ${accept}\r\n\r\n`)
    socket.end()
    expect(await text).toMatch(end)
  },
)

interface Stream {
  readonly response: IncomingMessage
  text(): string
  until(pattern: RegExp): Promise<void>
  readonly ended: Promise<void>
}

async function openStream(
  { port }: TestApp,
  { query = '', headers = {} }: { query?: string; headers?: Record<string, string> } = {},
): Promise<Stream> {
  const accept = { Accept: 'text/event-stream' }
  const response = await openResponse(port, `${PATH}?${query}`, { ...accept, ...headers })
  let text = ''
  response.setEncoding('utf8').on('data', part => {
    text += part
  })
  return {
    response,
    text: () => text,
    until: async pattern => void (await until(() => pattern.test(text))),
    ended: new Promise(end => response.on('close', end)),
  }
}

describe('as a stream of events', () => {
  test('it begins at the beginning, and tells of each change, also with Accept: text/*', async () => {
    const app = await openTestApp({ users: [newUserBody({ name: 'First\u2028' })] })
    const first = (await app.http.get('/users/1')).body
    const headers = { Accept: 'text/*' }
    const { response, text, until: untilText } = await openStream(app, { headers })
    expect(response.statusCode).toBe(200)
    expect(response.headers).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'private, no-cache, no-transform',
      'x-accel-buffering': 'no',
    })
    expect(response.headers).not.toHaveProperty('content-length')
    await untilText(/event: user\n/)
    expect(text()).toMatch(/^retry: 1000\n\nid: [\w-]+\nevent: user\ndata: .*\n\n$/)
    expect(JSON.parse(/data: (.*)\n/.exec(text())?.[1] ?? '')).toEqual(first)
    await app.http.delete('/users/1').expect(204)
    await untilText(/event: deletion\n/)
    const data = /event: deletion\ndata: (.*)\n\n$/.exec(text())?.[1] ?? ''
    expect(JSON.parse(data)).toEqual({ id: 1, deleted_at: A_TIME })
  })

  test('it goes on after Last-Event-ID, or else after lastEventId, or else after `after`', async () => {
    const app = await openTestApp({ users: [newUserBody(), newUserBody(), newUserBody()] })
    const opened = await openStream(app)
    await opened.until(/(?:data[\s\S]*){3}/)
    const ids = Array.from(opened.text().matchAll(/id: (.*)\n/g), ([, id = '']) => id)
    const [first = '', second = ''] = ids
    const headers = { 'Last-Event-ID': second }
    for (const [next, query, sent] of [
      [3, `after=${first}`, headers],
      [3, `lastEventId=${first}`, headers],
      [3, `lastEventId=x&after=x`, headers],
      [3, `after=${first}&lastEventId=${second}`, {}],
      [3, `after=x&lastEventId=${second}`, { 'Last-Event-ID': '' }],
      [2, `after=${first}`, {}],
    ] as const) {
      const resumed = await openStream(app, { query, headers: sent })
      await resumed.until(/data/)
      expect(resumed.text()).toContain(`event: user\ndata: {"id":${next},`)
      expect(resumed.text().match(/event: user/g)).toHaveLength(4 - next)
    }
    expect((await read(app, `after=${second}`)).data).toMatchObject([{ id: 3 }])
  })

  test('limit and wait are 400, and so is an altered Last-Event-ID; a foreign one is 410', async () => {
    const app = await openTestApp()
    const ask = (query: string, headers = {}) =>
      app.http.get(`${PATH}?${query}`).set({ Accept: 'text/event-stream', ...headers })
    const { body } = await ask('limit=1&wait=1').expect(400)
    expect(body.errors).toEqual({ limit: ['is unknown'], wait: ['is unknown'] })
    const wrong = await ask('lastEventId=x').expect(400)
    expect(wrong.body.errors).toEqual({ lastEventId: ['is not a cursor of changes'] })
    expect((await app.http.get(`${PATH}?lastEventId=x`)).body.errors).toEqual({
      lastEventId: ['is unknown'],
    })
    const altered = await ask('foo=1&after=x', { 'Last-Event-ID': 'x' }).expect(400)
    expect(altered.body.errors).toEqual({
      foo: ['is unknown'],
      after: ['is not a cursor of changes'],
    })
    const { next: own } = await read(app)
    const resumed = await openStream(app, { query: 'after=x', headers: { 'Last-Event-ID': own } })
    expect(resumed.response.statusCode).toBe(200)
    const { next } = await read(await openTestApp())
    await ask('', { 'Last-Event-ID': next }).expect(410)
    expect((await app.http.head(PATH).set('Accept', 'text/event-stream')).status).toBe(200)
  })
})

const HOUR = 3_600_000

/** The service again, some time later, which keeps deletions for an hour. */
function openLater({ databaseUrl }: TestApp, ms: number, now = Date.now): Promise<TestApp> {
  const env = { DATABASE_URL: databaseUrl, CHANGES_RETENTION: '1h' }
  return openTestApp({ env, now: () => now() + ms })
}

test('after CHANGES_RETENTION deletions are forgotten: cursors from before them expire, later ones and a new reading go on', async () => {
  const app = await openTestApp({ users: [1, 2, 3, 4].map(() => newUserBody()) })
  const { next: before } = await until(async () => {
    const followed = await follow(app)
    return followed.copy.size === 4 && followed
  })
  const partly = (await read(app, 'limit=1')).next
  await app.http.delete('/users/2').expect(204)
  await until(async () => (await follow(app, before)).entries.some(({ id }) => id === 2))
  const { next: between } = await follow(app, before)
  await app.stop()

  const kept = await openLater(app, HOUR / 2)
  expect((await follow(kept, before)).entries).toMatchObject([{ id: 2, user: null }])
  await kept.stop()

  const later = await openLater(app, 2 * HOUR)
  for (const cursor of [before, partly]) {
    await until(async () => (await later.http.get(`${PATH}?after=${cursor}`)).status === 410)
  }
  expect((await follow(later, between)).entries).toEqual([])
  for (const limit of [1, 100]) {
    const { entries, copy } = await follow(later, undefined, limit)
    expect(entries.every(({ user }) => user !== null)).toBe(true)
    expect([...copy.keys()].sort()).toEqual([1, 3, 4])
  }
  // The last change of all is one of those that are forgotten.
  expect((await read(later, 'after=now')).data).toEqual([])
})

/** A service that deleted three users one after another, of which one as if the clock had been wrong, and a cursor from before. */
async function openMisdated(misdated: number) {
  const app = await openTestApp({ users: [1, 2, 3].map(() => newUserBody()) })
  const { next: before } = await until(async () => {
    const followed = await follow(app)
    return followed.copy.size === 3 && followed
  })
  for (const id of [1, 2, 3]) await app.http.delete(`/users/${id}`).expect(204)
  await executeSql(
    app.databaseUrl,
    `UPDATE user_changes SET deleted_at = '2999-01-31T12:00:00.000Z' WHERE id = ${misdated}`,
  )
  await until(async () => (await follow(app, before)).entries.length === 3)
  await app.stop()
  return { app, before }
}

const DATES = 'SELECT deleted_at FROM user_changes WHERE deleted_at IS NOT NULL ORDER BY id'

test.each([1, 2])(
  'deletion %i of three, dated in the future, is forgotten with the others',
  async misdated => {
    const { app, before } = await openMisdated(misdated)
    const kept = await openLater(app, HOUR / 2)
    expect((await follow(kept, before)).entries).toHaveLength(3)
    await kept.stop()
    const later = await openLater(app, 2 * HOUR)
    await until(async () => (await later.http.get(`${PATH}?after=${before}`)).status === 410)
    expect(await selectRows(app.databaseUrl, DATES)).toEqual([])
  },
)

test('a last deletion that is dated in the future is as old as now, and holds no later one', async () => {
  const { app, before } = await openMisdated(3)
  const { databaseUrl } = app
  const half = Date.now() + HOUR / 2
  const seen = await openLater(app, 0, () => half)
  const { next, entries } = await until(async () => {
    const followed = await follow(seen, before)
    return followed.entries[2]?.deleted_at === new Date(half).toISOString() && followed
  })
  expect(entries).toHaveLength(3)
  await seen.stop()

  const later = await openLater(app, 1.25 * HOUR)
  await until(async () => (await later.http.get(`${PATH}?after=${before}`)).status === 410)
  expect(await selectRows(databaseUrl, DATES)).toHaveLength(1)
  await later.stop()
  const last = await openLater(app, 2 * HOUR)
  await until(async () => (await selectRows(databaseUrl, DATES)).length === 0)
  expect((await follow(last, next)).entries).toEqual([])
})

test('migrate --new-feed lets the cursors of a feed whose disk was put back expire, and the entity tags of lists, and ends its streams', async () => {
  const app = await openTestApp({ users: [newUserBody()] })
  const { next } = await follow(app)
  const { body: list, headers } = await app.http.get('/users?per_page=1&page=1')
  const stream = await openStream(app, { query: `after=${next}` })
  const [cwd, env] = [temporaryFolder(), { DATABASE_URL: app.databaseUrl }]
  expect(await runCommand({ cwd, env, args: ['migrate'] })).toMatchObject({ code: 0 })
  await app.http.get(`${PATH}?after=${next}`).expect(200)
  expect(await runCommand({ cwd, env, args: ['migrate', '--new-feed'] })).toMatchObject({ code: 0 })
  await app.http.get(`${PATH}?after=${next}`).expect(410)
  // On PostgreSQL each change makes a random one.
  const status = byEngine({ sqlite: 200, postgres: 304 })
  await app.http
    .get('/users')
    .set('If-None-Match', headers.etag ?? '')
    .expect(status)
  await stream.ended
  expect(stream.response.complete).toBe(false)
  // On PostgreSQL not before the writes of other databases of the server have ended.
  await until(async () => isDeepStrictEqual([...(await follow(app)).copy.values()], list))
})

const FOLLOWER = { name: 'follower', scopes: ['users:read'] } as const

test('a revoked key ends a wait and a stream', async () => {
  const app = await openTestApp({ keys: [FOLLOWER] })
  const [key = ''] = app.bearers
  const { body } = await app.http.get(PATH).set('Authorization', key)
  const waiting = app.http.get(`${PATH}?after=${body.next}&wait=60`).set('Authorization', key)
  const answered = waiting.then(({ status, headers }) => [status, headers['www-authenticate']])
  // Streams check at times of their own whether they still may go on.
  const streams: Stream[] = []
  for (let count = 0; count < 8; count++) {
    streams.push(await openStream(app, { headers: { Authorization: key } }))
    await sleep(5)
  }
  await withKeyStore(app.databaseUrl, store => store.revoke('follower'))
  expect(await answered).toEqual([401, expect.stringContaining('error="invalid_token"')])
  await Promise.all(streams.map(({ ended }) => ended))
})

test('a revoked key ends a stream whose client takes nothing', async () => {
  const app = await openTestApp({ keys: [FOLLOWER] })
  const { databaseUrl, bearers } = app
  // More than the buffers of a connection hold.
  await executeSql(databaseUrl, insertManyUsers(8000, LONG_END))
  const stream = await openStream(app, { headers: { Authorization: bearers[0] ?? '' } })
  await stream.until(/event: user/)
  stream.response.socket.pause()
  await withKeyStore(databaseUrl, store => store.revoke('follower'))
  // It is logged when it has ended: broken off, unless all that was sent until then is in the buffers.
  await until(() => app.logLines.some(({ route }) => route === PATH))
  stream.response.socket.resume()
  await stream.ended
})
