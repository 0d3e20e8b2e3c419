import { describe, expect, onTestFinished, test } from 'vitest'
import {
  createClient,
  type UserRecordsClient,
  UserRecordsError,
} from '../../client/create-client.ts'
import { collect } from '../support/collect.ts'
import type { AtEnd } from '../support/open-test-app.ts'
import {
  answer,
  breakOff,
  breakWithin,
  openScriptedServer,
  refuse,
  type Step,
  staySilent,
} from '../support/scripted-server.ts'

const ANN = {
  id: 1,
  name: 'Ann',
  email: 'ann@example.com',
  created_at: '2026-01-31T12:00:00.000Z',
  updated_at: '2026-01-31T12:00:00.000Z',
}

const NOW = { 'Retry-After': '0' }

const PROXY_PAGE = answer(503, '<h1>Service Unavailable</h1>')

/** A first answer, each with what is known after it: whether something may have been done. */
const FAILURES: Readonly<Record<string, { step: Step; isUnknown: boolean }>> = {
  '409 idempotency_key_in_use': {
    step: refuse(409, 'idempotency_key_in_use', NOW),
    isUnknown: false,
  },
  '429 with Retry-After': { step: refuse(429, 'rate_limited', NOW), isUnknown: false },
  '503 of the service': { step: refuse(503, 'overloaded', NOW), isUnknown: false },
  '503 outcome_unknown': { step: refuse(503, 'outcome_unknown', NOW), isUnknown: true },
  '503 of a proxy': { step: PROXY_PAGE, isUnknown: true },
  '502': { step: answer(502, '<h1>Bad Gateway</h1>'), isUnknown: true },
  '504': { step: answer(504), isUnknown: true },
  'a broken connection': { step: breakOff, isUnknown: true },
  'half an answer': { step: breakWithin, isUnknown: true },
  silence: { step: staySilent, isUnknown: true },
}

const CREATED = [{ status: 201, user: ANN }]

/** Each call with the answer of the second try, and what it then gives. */
const REPEATABLE: Readonly<
  Record<
    string,
    { call: (users: UserRecordsClient) => Promise<unknown>; step: Step; gives: unknown }
  >
> = {
  create: { call: users => users.create(ANN), step: answer(201, ANN), gives: ANN },
  read: { call: users => users.read(1), step: answer(200, ANN), gives: ANN },
  version: {
    call: users => users.version(1),
    step: answer(200, ANN, { ETag: '"v1"' }),
    gives: '"v1"',
  },
  update: { call: users => users.update(1, { name: 'Ann' }), step: answer(200, ANN), gives: ANN },
  delete: { call: users => users.delete(1), step: answer(204), gives: true },
  deleteMany: {
    call: users => users.deleteMany([1]),
    step: answer(200, { data: [{ id: 1, status: 204 }] }),
    gives: [{ id: 1, status: 204 }],
  },
  page: {
    call: users => users.page(),
    step: answer(200, [ANN]),
    gives: { data: [ANN], total: undefined, next: undefined },
  },
  list: { call: users => collect(users.list()), step: answer(200, [ANN]), gives: [ANN] },
  verify: {
    call: users => users.verify({ email: ANN.email, password: 'correct horse' }),
    step: answer(200, ANN),
    gives: ANN,
  },
}

const ONCE: typeof REPEATABLE = {
  createMany: {
    call: users => users.createMany([ANN]),
    step: answer(200, { data: CREATED }),
    gives: CREATED,
  },
  'update with ifMatch': {
    call: users => users.update(1, { name: 'Ann' }, { ifMatch: '"v1"' }),
    step: answer(200, ANN),
    gives: ANN,
  },
}

/** Of a client that tries once more. It waits for silence as long as a busy machine needs for anything else. */
async function openClient(steps: readonly Step[], atEnd?: AtEnd) {
  const server = await openScriptedServer(steps, atEnd)
  const timeoutMs = steps[0] === staySilent ? 1000 : 60_000
  return { server, users: createClient({ url: server.url, timeoutMs, retries: 1 }) }
}

async function errorOf(call: Promise<unknown>): Promise<UserRecordsError> {
  const error = await call.catch((thrown: unknown) => thrown)
  if (error instanceof UserRecordsError) return error
  throw new Error('the call throws no UserRecordsError', { cause: error })
}

for (const [failure, { step, isUnknown }] of Object.entries(FAILURES)) {
  describe.concurrent(`after ${failure}`, () => {
    for (const [name, { call, step: success, gives }] of Object.entries(REPEATABLE)) {
      test(`${name} is tried again, with the same request`, async ({ onTestFinished }) => {
        const { server, users } = await openClient([step, success], onTestFinished)
        expect(await call(users)).toEqual(gives)
        expect(server.requests).toHaveLength(2)
        const [first, second] = server.requests
        expect(second).toMatchObject({ ...first, headers: {} })
        expect(second?.headers['idempotency-key']).toBe(first?.headers['idempotency-key'])
      })
    }

    for (const [name, { call, step: success, gives }] of Object.entries(ONCE)) {
      test(`${name} is ${isUnknown ? 'not ' : ''}tried again`, async ({ onTestFinished }) => {
        const { server, users } = await openClient([step, success], onTestFinished)
        if (isUnknown) await errorOf(call(users))
        else expect(await call(users)).toEqual(gives)
        expect(server.requests).toHaveLength(isUnknown ? 1 : 2)
      })
    }

    test(`delete gives ${isUnknown} if the user is gone then`, async ({ onTestFinished }) => {
      const { users } = await openClient([step, refuse(404, 'user_not_found')], onTestFinished)
      expect(await users.delete(1)).toBe(isUnknown)
    })

    test(`deleteMany gives ${isUnknown ? 204 : 404} for a user who is gone then`, async ({
      onTestFinished,
    }) => {
      const { users } = await openClient(
        [step, answer(200, { data: [{ id: 1, status: 404 }] })],
        onTestFinished,
      )
      expect(await users.deleteMany([1])).toEqual([{ id: 1, status: isUnknown ? 204 : 404 }])
    })
  })
}

describe.concurrent('no call is tried again', () => {
  test.for<[string, Step, Partial<UserRecordsError>]>([
    ['after 429 without Retry-After', refuse(429, 'rate_limited'), { status: 429 }],
    [
      'if Retry-After is longer than a minute',
      refuse(503, 'overloaded', { 'Retry-After': '61', 'X-Request-Id': 'r1' }),
      { status: 503, reason: 'overloaded', retryAfterMs: 61_000, requestId: 'r1' },
    ],
    ['after another error', refuse(500, 'internal_error'), { status: 500 }],
    ['after 409 with another reason', refuse(409, 'conflict'), { status: 409 }],
    [
      'after a page of a proxy',
      answer(200, '<h1>Log in</h1>'),
      { status: 200, reason: 'unexpected_answer', message: 'The answer is 200' },
    ],
    ['after a text that is no object', answer(200, '"ok"'), { reason: 'unexpected_answer' }],
    ['after an answer without content', answer(200), { reason: 'unexpected_answer' }],
    ['after 204 for a user', answer(204), { status: 204, reason: 'unexpected_answer' }],
  ])('%s', async ([_, step, expected], { onTestFinished }) => {
    const { server, users } = await openClient([step], onTestFinished)
    expect(await errorOf(users.read(1))).toMatchObject(expected)
    expect(server.requests).toHaveLength(1)
  })

  const changes = { call: (users: UserRecordsClient) => users.changes().next() }
  test.for(Object.entries({ ...REPEATABLE, ...ONCE, changes }))(
    'after a body that does not fit %s',
    async ([name, { call }], { onTestFinished }) => {
      const body = name === 'changes' ? { data: [] } : {}
      const { server, users } = await openClient([answer(200, body)], onTestFinished)
      expect(await errorOf(call(users))).toMatchObject({ status: 200, reason: 'unexpected_answer' })
      expect(server.requests).toHaveLength(1)
    },
  )

  test('more often than `retries` says', async ({ onTestFinished }) => {
    const server = await openScriptedServer([refuse(503, 'overloaded', NOW)], onTestFinished)
    const users = createClient({ url: server.url, retries: 2 })
    expect(await errorOf(users.read(1))).toMatchObject({ status: 503, retryAfterMs: 0 })
    expect(server.requests).toHaveLength(3)
  })
})

test('without an answer the error says why', async () => {
  const { users } = await openClient([breakOff])
  const error = await errorOf(users.createMany([ANN]))
  expect(error).toMatchObject({ status: undefined, reason: 'unreachable' })
  expect(error.cause).toBeInstanceOf(Error)
  const silent = await openClient([staySilent])
  const { cause } = await errorOf(silent.users.createMany([ANN]))
  expect(cause).toMatchObject({ name: 'TimeoutError' })
})

test('Retry-After may be a date', async () => {
  const date = new Date(Date.now() + 3_600_000).toUTCString()
  const { users } = await openClient([refuse(503, 'overloaded', { 'Retry-After': date })])
  const { retryAfterMs } = await errorOf(users.read(1))
  expect(retryAfterMs).toBeGreaterThan(3_000_000)
  expect(retryAfterMs).toBeLessThanOrEqual(3_600_000)
})

describe('many at once', () => {
  const entriesFor: Step = (response, { body }) => {
    const { users } = JSON.parse(body)
    const data = users.map((user: object) => ({ status: 201, user }))
    response.end(JSON.stringify({ data }))
  }
  const numbered = (count: number, name = '') =>
    Array.from({ length: count }, (_, at) => ({ name: `${at}${name}`, email: `${at}@example.com` }))

  test('createMany sends hundreds, one after the other', async () => {
    const { server, users } = await openClient([entriesFor])
    const entries = await users.createMany(numbered(250))
    expect(entries.map(entry => entry.status === 201 && entry.user.name)).toEqual(
      numbered(250).map(({ name }) => name),
    )
    const sizes = server.requests.map(({ body }) => JSON.parse(body).users.length)
    expect(sizes).toEqual([100, 100, 50])
  })

  test('createMany sends fewer where a hundred would be larger than the service takes', async () => {
    const { server, users } = await openClient([entriesFor])
    await users.createMany(numbered(200, '\u{1F600}'.repeat(250)))
    for (const { body } of server.requests) expect(Buffer.byteLength(body)).toBeLessThan(100_000)
    expect(server.requests.length).toBeLessThan(5)
  })

  test('an error has the entries of the hundreds before', async () => {
    const { users } = await openClient([entriesFor, breakOff])
    const { entries } = await errorOf(users.createMany(numbered(150)))
    expect(entries).toHaveLength(100)
  })

  const deleteThose: Step = (response, { path }) => {
    const ids = new URL(path ?? '', 'http://x').searchParams.get('id')?.split(',') ?? []
    response.end(JSON.stringify({ data: ids.map(id => ({ id: Number(id), status: 204 })) }))
  }

  test('deleteMany asks for each id once', async () => {
    const { server, users } = await openClient([deleteThose])
    const ids = Array.from({ length: 150 }, (_, at) => at + 1)
    const entries = await users.deleteMany([...ids, ...ids])
    expect(entries.map(({ id }) => id)).toEqual(ids)
    expect(server.requests).toHaveLength(2)
  })

  test('nobody is no request', async () => {
    const { server, users } = await openClient([entriesFor])
    expect([await users.createMany([]), await users.deleteMany([])]).toEqual([[], []])
    expect(server.requests).toHaveLength(0)
  })
})

describe('a redirect', () => {
  test('is followed within the origin, with the method and the body', async () => {
    const { server, users } = await openClient([
      answer(308, '', { Location: '/moved' }),
      answer(201, ANN),
    ])
    expect(await users.create(ANN)).toEqual(ANN)
    const [first, second] = server.requests
    expect(second).toMatchObject({ method: 'POST', path: '/moved', body: first?.body })
  })

  test('never leaves the origin', async () => {
    const other = await openScriptedServer([answer(200, ANN)])
    const { users } = await openClient([answer(307, '', { Location: `${other.url}/users/1` })])
    expect(await errorOf(users.read(1))).toMatchObject({
      status: 307,
      reason: 'unexpected_answer',
      message: `The answer is 307, a redirect to ${other.url}/users/1`,
    })
    expect(other.requests).toHaveLength(0)
  })

  test('that makes a read of a write is not followed', async () => {
    const { server, users } = await openClient([answer(302, '', { Location: '/busy' })])
    expect(await errorOf(users.create(ANN))).toMatchObject({ status: 302 })
    expect(server.requests).toHaveLength(1)
  })

  test('in a circle ends', async () => {
    const { server, users } = await openClient([answer(302, '', { Location: '/users/1' })])
    expect(await errorOf(users.read(1))).toMatchObject({ status: 302 })
    expect(server.requests.length).toBeLessThan(10)
  })
})

describe('a signal', () => {
  const reason = new Error('enough')

  test('that is aborted already sends nothing', async () => {
    const { server, users } = await openClient([answer(200, ANN)])
    const call = users.read(1, { signal: AbortSignal.abort(reason) })
    await expect(call).rejects.toBe(reason)
    expect(server.requests).toHaveLength(0)
  })

  test('ends a request under way, also with a fetch that does not listen', async () => {
    for (const fetch of [undefined, () => new Promise<Response>(() => {})]) {
      const server = await openScriptedServer([staySilent])
      const users = createClient({ url: server.url, fetch })
      const controller = new AbortController()
      const call = users.read(1, { signal: controller.signal })
      setTimeout(() => controller.abort(reason), 20)
      await expect(call).rejects.toBe(reason)
    }
  })

  test('ends the wait before the next try, and of changes too', async () => {
    const { users } = await openClient([refuse(503, 'overloaded', { 'Retry-After': '50' })])
    const controller = new AbortController()
    const { signal } = controller
    const calls = [users.read(1, { signal }), users.changes({}, { signal }).next()]
    setTimeout(() => controller.abort(reason), 20)
    for (const call of calls) await expect(call).rejects.toBe(reason)
  })
})

test('no call leaves a timer behind', async () => {
  const timers = () => process.getActiveResourcesInfo().filter(name => name === 'Timeout').length
  const before = timers()
  const { users } = await openClient([answer(200, ANN)])
  const slow = createClient({ url: 'http://127.0.0.1:9', timeoutMs: 100_000, retries: 0 })
  await users.read(1)
  await errorOf(slow.read(1))
  const controller = new AbortController()
  const waits = createClient({
    url: 'http://127.0.0.1',
    fetch: async () => new Response('', { status: 503, headers: { 'Retry-After': '50' } }),
  })
  const call = waits.read(1, { signal: controller.signal })
  setTimeout(() => controller.abort(new Error('enough')), 10)
  await expect(call).rejects.toThrow('enough')
  // One of an earlier test may have ended meanwhile.
  expect(timers()).toBeLessThanOrEqual(before)
})

const page = (data: object[], next: string): Step => answer(200, { data, has_more: false, next })
const entry = { id: 1, user: ANN }

describe.concurrent('changes go on, more often than `retries` says', () => {
  // A service may be silent for as long as it was asked to wait.
  const passing = Object.entries(FAILURES).filter(([, { step }]) => step !== staySilent)

  test.for(passing)('after %s', async ([, { step }], { onTestFinished }) => {
    const steps = [step, step, step, page([entry], 'c1')]
    const { server, users } = await openClient(steps, onTestFinished)
    for await (const { data, next, reset } of users.changes({ after: 'c0' })) {
      expect({ data, next, reset }).toEqual({ data: [entry], next: 'c1', reset: false })
      break
    }
    expect(server.requests).toHaveLength(4)
    for (const { path } of server.requests) expect(path).toContain('after=c0')
  })
})

describe('changes', () => {
  test('begin again on 410, and say so once, even with nobody left', async () => {
    const { server, users } = await openClient([
      refuse(410, 'cursor_expired'),
      page([], 'c1'),
      page([entry], 'c2'),
    ])
    const changes = users.changes({ after: 'old' })
    expect((await changes.next()).value).toEqual({ data: [], next: 'c1', reset: true })
    expect((await changes.next()).value).toEqual({ data: [entry], next: 'c2', reset: false })
    const [, again, then] = server.requests.map(({ path }) => path)
    expect(again).not.toContain('after')
    expect(then).toContain('after=c1')
    await changes.return(undefined as never)
  })

  test('end with an error that stays', async () => {
    const { users } = await openClient([refuse(401, 'key_required')])
    expect(await errorOf(users.changes().next())).toMatchObject({ reason: 'key_required' })
  })

  test('do not ask without a pause where nothing is answered at once', async () => {
    const { server, users } = await openClient([page([], 'c1')])
    const controller = new AbortController()
    onTestFinished(() => controller.abort())
    const next = users.changes({ after: 'c0' }, { signal: controller.signal }).next()
    setTimeout(() => controller.abort(new Error('enough')), 300)
    await expect(next).rejects.toThrow('enough')
    expect(server.requests).toHaveLength(1)
  })
})
