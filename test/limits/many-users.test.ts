import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { BOB, type From, shareLimitedApp } from '../support/limited-app.ts'

const app = shareLimitedApp()

const RULE = { name: 'it', to: 5, within: 60, only: ['create'] }
const BY_EMAIL = { ...RULE, name: 'one address', to: 2, by: 'body:user.email' }

const some = (count: number) => Array.from({ length: count }, () => newUserBody().user)
const named = (...emails: string[]) => emails.map(email => newUserBody({ email }).user)

/** The status, what each rule leaves, and how many users there are more. */
async function send(body: object, from?: From) {
  const count = async () => (await app.http.get('/users?per_page=1000')).body.length
  const before = await count()
  const { status, headers } = await app.ask('POST /users', from).send(body)
  const items = String(headers.ratelimit ?? '').matchAll(/"([^"]+)"; r=(\d+)/g)
  const left = [...items].map(([, name, left]) => `${name} ${left}`)
  const policies = String(headers['ratelimit-policy'] ?? '').match(/q=/g) ?? []
  expect(policies).toHaveLength(left.length)
  return [status, left, (await count()) - before]
}

const sendMany = (users: object[], from?: From) => send({ users }, from)

function numbersOf(name: string) {
  const found = app.limitsReport().rules.find(({ rule }) => rule === name)
  return found && [found.counted, found.passed, found.refused, found.wouldRefuse]
}

test('rateLimits count as many creates as a request has users, and none is made where they do not all fit', async () => {
  await app.startOver({ rateLimits: [RULE] })
  expect(await sendMany(some(3))).toEqual([200, ['it 2'], 3])
  expect(await send(newUserBody())).toEqual([201, ['it 1'], 1])
  expect(await sendMany(some(2))).toEqual([429, ['it 0'], 0])
  expect(await send(newUserBody())).toEqual([429, ['it 0'], 0])
  expect(await sendMany(some(5), BOB)).toEqual([200, ['it 0'], 5])
  expect(numbersOf('it')).toEqual([12, 10, 2, 0])
  expect(app.linesOf('limit exceeded')).toHaveLength(1)
})

test('a request that never fits has no Retry-After, one that fits later has', async () => {
  await app.startOver({ rateLimits: [RULE, BY_EMAIL] })
  const retryOf = async (users: object[]) => {
    const { status, headers } = await app.ask('POST /users').send({ users })
    return [status, headers['retry-after']]
  }
  expect(await retryOf(some(6))).toEqual([429, undefined])
  expect(await retryOf(some(5))).toEqual([429, '60'])
  app.clock.advance(60_000)
  expect(await retryOf(named('g@many.co', 'G@many.co', 'g@many.co'))).toEqual([429, undefined])
  expect(await retryOf(named('g@many.co'))).toEqual([429, '60'])
})

test('rules whose names look alike in a header have an item each', async () => {
  await app.startOver({
    rateLimits: [
      { ...RULE, name: 'é' },
      { ...RULE, name: 'ü', to: 7 },
    ],
  })
  expect(await sendMany(some(2))).toEqual([200, ['? 3', '? 5'], 2])
})

test('users that are refused count, and those of a request that does not fit have counted', async () => {
  await app.startOver({ rateLimits: [RULE] })
  expect(await sendMany([{}, {}, newUserBody().user])).toEqual([200, ['it 2'], 1])
  expect(await sendMany(some(3))).toEqual([429, ['it 0'], 0])
  expect(await sendMany(some(1))).toEqual([429, ['it 0'], 0])
})

test('a request that is not of 1 to 100 users counts as one', async () => {
  await app.startOver({ rateLimits: [RULE] })
  for (const [body, left] of [
    [{ users: [] }, 4],
    [{ users: Array(101).fill({}) }, 3],
    [{ users: some(2), user: null }, 2],
    [{ users: 'x' }, 1],
  ] as const) {
    expect(await send(body)).toEqual([422, [`it ${left}`], 0])
  }
})

test('each rule counts, in the order of the file, until one refuses', async () => {
  const wide = { ...RULE, name: 'wide', to: 100 }
  const narrow = { ...RULE, name: 'narrow', to: 3 }
  await app.startOver({ rateLimits: [wide, BY_EMAIL, narrow] })
  expect(await sendMany(named('a@many.co', 'b@many.co'))).toEqual([
    ...[200, ['wide 98', 'narrow 1', 'one address 1'], 2],
  ])
  expect(await sendMany(some(2))).toEqual([429, ['wide 96', 'narrow 0'], 0])
  // The first user counts before the body is read, by all of them.
  await app.startOver({ rateLimits: [narrow, wide] })
  expect(await sendMany(some(5))).toEqual([429, ['narrow 0', 'wide 99'], 0])
})

test('limits by the body count each user by its own, and the tightest is shown', async () => {
  await app.startOver({ rateLimits: [BY_EMAIL] })
  const twice = named('c@many.co', 'd@many.co', ' C@many.co ')
  expect(await sendMany([...twice, {}])).toEqual([200, ['one address 0'], 2])
  expect(await sendMany(named('d@many.co', 'e@many.co'))).toEqual([200, ['one address 0'], 1])
  expect(await sendMany(named('f@many.co', 'd@many.co'))).toEqual([429, ['one address 0'], 0])
  expect(await send({ user: named('c@many.co')[0] })).toEqual([429, ['one address 0'], 0])
  expect(await send({ user: named('f@many.co')[0] })).toEqual([201, ['one address 0'], 1])
  expect(await sendMany([{}])).toEqual([200, [], 0])
  expect(numbersOf('one address')).toEqual([9, 7, 2, 0])
})

test('each address over its limit is refused, counted and logged', async () => {
  await app.startOver({ rateLimits: [BY_EMAIL] })
  const emails = ['a', 'b', 'b', 'b', 'c', 'c', 'c', 'c'].map(name => `${name}@over.co`)
  expect(await sendMany(named(...emails))).toEqual([429, ['one address 0'], 0])
  expect(numbersOf('one address')).toEqual([8, 1, 7, 0])
  expect(app.linesOf('limit exceeded')).toHaveLength(2)
})

test('a rule in dry run lets them pass, and says what it would have done', async () => {
  await app.startOver({ rateLimits: [{ ...RULE, dryRun: true }] })
  expect(await sendMany(some(6))).toEqual([200, [], 6])
  expect(numbersOf('it')).toEqual([6, 1, 0, 5])
})

test('the filter counts one request, and safe requests are not counted', async () => {
  const posts = { name: 'posts', method: 'POST', limit: 1, period: 60 }
  await app.startOver({ throttle: [posts], rateLimits: [RULE], safelist: [{ ip: BOB }] })
  expect(await sendMany(some(4))).toEqual([200, ['it 1'], 4])
  expect((await sendMany(some(1)))[0]).toBe(429)
  expect(await sendMany(some(9), BOB)).toEqual([200, [], 9])
})

test('functions see each user as it would come alone', async () => {
  await app.startOver(`{
    rateLimits: [{
      name: 'it',
      to: request => (request.body.user.name === 'Gold' ? 3 : 2),
      within: 60,
      by: ['body:user.name', request => request.body.user.plan],
    }],
  }`)
  const users = (name: string) => some(3).map(user => ({ ...user, name, plan: 'x' }))
  expect(await sendMany(users('Gold'))).toEqual([200, ['it 0'], 3])
  expect(await sendMany(users('Silver'))).toEqual([429, ['it 0'], 0])
  expect(await sendMany([...some(1), ...users('Tin').slice(1)])).toEqual([200, ['it 0'], 3])
  await app.startOver(`{
    rateLimits: [{ name: 'it', to: 1, within: 60, by: ['body:user.name', () => { throw Error() }] }],
  }`)
  expect(await sendMany(some(3))).toEqual([200, [], 3])
})

test('a function under with answers for all of them, or lets them pass', async () => {
  await app.startOver(`{
    rateLimits: [{
      ...${JSON.stringify(RULE)},
      with: (request, response, next) =>
        request.get('x-plan') === 'gold' ? next() : response.status(402).end(),
    }],
  }`)
  expect(await sendMany(some(6))).toEqual([402, ['it 0'], 0])
  expect(await sendMany(some(6), { 'X-Plan': 'gold' })).toEqual([200, ['it 0'], 6])
})
