import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { openKeyedApp } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'

/** Ways to break a request, to be combined. */
const NOT_ACCEPTABLE = { Accept: 'text/html' }
const WRONG_TYPE = { 'Content-Type': 'text/plain' }
const RIGHT_TYPE = { 'Content-Type': 'application/json' }
const WRONG_CODING = { 'Content-Encoding': 'rot13' }
const GZIP = { 'Content-Encoding': 'gzip' }
const CHUNKED = { 'Transfer-Encoding': 'chunked' }
const TOO_LONG = 'x'.repeat(100 * 1024 + 1)
const TOO_LONG_IN_CHUNKS = `${TOO_LONG.length.toString(16)}\r\n${TOO_LONG}\r\n0\r\n\r\n`
const BROKEN = '{"user":'
const WRONG_FIELDS = '{"user":{"name":5}}'
const NO_USER = '{}'
const RIGHT_FIELDS = '{"user":{"name":"Other"}}'

const EVERYTHING_WRONG = { ...NOT_ACCEPTABLE, ...WRONG_TYPE, ...WRONG_CODING }

interface Row {
  readonly breaks: string
  readonly line: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
  readonly winner: number
}

const ROWS: readonly Row[] = [
  { breaks: 'path and method', line: 'DELETE /%zz', winner: 400 },
  { breaks: 'path and method', line: 'POST /users/%zz', winner: 400 },
  { breaks: 'path and Accept', line: 'GET /users/%ff', headers: NOT_ACCEPTABLE, winner: 400 },
  {
    breaks: 'path and all after it',
    line: 'PUT /users/%',
    headers: EVERYTHING_WRONG,
    body: TOO_LONG,
    winner: 400,
  },
  { breaks: 'an unknown path and method', line: 'PROPFIND /nowhere', winner: 404 },
  {
    breaks: 'an unknown path and Accept',
    line: 'GET /nowhere',
    headers: NOT_ACCEPTABLE,
    winner: 404,
  },
  {
    breaks: 'an unknown path and all after it',
    line: 'POST /users/',
    headers: EVERYTHING_WRONG,
    body: TOO_LONG,
    winner: 404,
  },
  { breaks: 'method and Accept', line: 'PUT /users', headers: NOT_ACCEPTABLE, winner: 405 },
  { breaks: 'method and Accept', line: 'POST /', headers: NOT_ACCEPTABLE, winner: 405 },
  { breaks: 'method and id', line: 'POST /users/abc', winner: 405 },
  { breaks: 'method and user', line: 'POST /users/999', winner: 405 },
  {
    breaks: 'method and Content-Type',
    line: 'POST /users/1',
    headers: WRONG_TYPE,
    body: 'x',
    winner: 405,
  },
  {
    breaks: 'method and syntax',
    line: 'PUT /users',
    headers: RIGHT_TYPE,
    body: BROKEN,
    winner: 405,
  },
  {
    breaks: 'method and all after it',
    line: 'POST /users/abc',
    headers: EVERYTHING_WRONG,
    body: TOO_LONG,
    winner: 405,
  },
  {
    breaks: 'Accept and Content-Type',
    line: 'POST /users',
    headers: { ...NOT_ACCEPTABLE, ...WRONG_TYPE },
    body: 'x',
    winner: 406,
  },
  {
    breaks: 'Accept and syntax',
    line: 'PUT /users/1',
    headers: { ...NOT_ACCEPTABLE, ...RIGHT_TYPE },
    body: BROKEN,
    winner: 406,
  },
  {
    breaks: 'Accept and fields',
    line: 'POST /users',
    headers: { ...NOT_ACCEPTABLE, ...RIGHT_TYPE },
    body: WRONG_FIELDS,
    winner: 406,
  },
  { breaks: 'Accept and user', line: 'GET /users/999', headers: NOT_ACCEPTABLE, winner: 406 },
  { breaks: 'Accept and id', line: 'GET /users/abc', headers: NOT_ACCEPTABLE, winner: 406 },
  {
    breaks: 'Accept and all after it',
    line: 'PATCH /users/abc',
    headers: EVERYTHING_WRONG,
    body: TOO_LONG,
    winner: 406,
  },
  {
    breaks: 'Content-Type and length',
    line: 'POST /users',
    headers: WRONG_TYPE,
    body: TOO_LONG,
    winner: 415,
  },
  {
    breaks: 'Content-Type and length in chunks',
    line: 'POST /users',
    headers: { ...WRONG_TYPE, ...CHUNKED },
    body: TOO_LONG_IN_CHUNKS,
    winner: 415,
  },
  {
    breaks: 'Content-Encoding and length',
    line: 'PUT /users/999',
    headers: { ...RIGHT_TYPE, ...WRONG_CODING },
    body: TOO_LONG,
    winner: 415,
  },
  {
    breaks: 'Content-Type and syntax',
    line: 'POST /users',
    headers: WRONG_TYPE,
    body: BROKEN,
    winner: 415,
  },
  {
    breaks: 'Content-Type and user',
    line: 'PUT /users/999',
    headers: WRONG_TYPE,
    body: RIGHT_FIELDS,
    winner: 415,
  },
  {
    breaks: 'length and syntax',
    line: 'POST /users',
    headers: RIGHT_TYPE,
    body: TOO_LONG,
    winner: 413,
  },
  {
    breaks: 'length in chunks and syntax',
    line: 'PATCH /users/1',
    headers: { ...RIGHT_TYPE, ...CHUNKED },
    body: TOO_LONG_IN_CHUNKS,
    winner: 413,
  },
  {
    breaks: 'length once inflated and syntax',
    line: 'PUT /users/1',
    headers: { ...RIGHT_TYPE, ...GZIP },
    body: gzipSync(TOO_LONG),
    winner: 413,
  },
  {
    breaks: 'length, fields and user',
    line: 'PUT /users/999',
    headers: RIGHT_TYPE,
    body: WRONG_FIELDS.padEnd(TOO_LONG.length),
    winner: 413,
  },
  {
    breaks: 'syntax and user',
    line: 'PUT /users/999',
    headers: RIGHT_TYPE,
    body: BROKEN,
    winner: 400,
  },
  {
    breaks: 'syntax, before which fields are wrong',
    line: 'POST /users',
    headers: RIGHT_TYPE,
    body: `${WRONG_FIELDS}}`,
    winner: 400,
  },
  ...['PUT', 'PATCH'].flatMap(method =>
    ['999', 'abc', '0', '9007199254740993'].flatMap(id =>
      [
        { breaks: 'fields and user', body: WRONG_FIELDS, winner: 422 },
        { breaks: 'the user field and user', body: NO_USER, winner: 422 },
        { breaks: 'user', body: RIGHT_FIELDS, winner: 404 },
        { breaks: 'user and taken e-mail', body: '{"user":{"email":"ann@x.co"}}', winner: 404 },
        {
          breaks: 'user and taken e-mail, with a password',
          body: '{"user":{"email":"ann@x.co","password":"correct horse"}}',
          winner: 404,
        },
      ].map(row => ({ ...row, line: `${method} /users/${id}`, headers: RIGHT_TYPE })),
    ),
  ),
]

/** The user that each of them finds. */
const ANN = newUserBody({ email: 'ann@x.co' })

test.each(ROWS.map(row => [row.line, row.breaks, row.winner, row] as const))(
  '%s that breaks %s answers %d',
  async (_line, _breaks, _winner, row) => {
    const { port } = await openTestApp({ users: [ANN] })
    const { line, headers = {}, body = '' } = row
    const isFramed = 'Transfer-Encoding' in headers || body.length === 0
    const head = Object.entries({
      Host: 'localhost',
      ...(!isFramed && { 'Content-Length': String(body.length) }),
      ...headers,
    })
    const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    const request = [Buffer.from(`${line} HTTP/1.1\r\n${lines}\r\n`), Buffer.from(body as string)]
    const exchange = sendRaw(port, Buffer.concat(request))
    const [answer] = await exchange.answers(1)
    exchange.socket.destroy()
    expect(answer?.status).toBe(row.winner)
    expect(JSON.parse(answer?.body ?? '')).toMatchObject({ code: row.winner, status: false })
  },
)

/** What a request may have wrong before its path is looked at, in the order in which the checks answer. */
const FIRST_CHECKS = ['host', 'blocklist', 'throttle', 'key', 'scope'] as const

type FirstCheck = (typeof FIRST_CHECKS)[number]

const STATUS_OF: Readonly<Record<FirstCheck, number>> = {
  host: 421,
  blocklist: 403,
  throttle: 429,
  key: 401,
  scope: 403,
}

const REASON_OF: Readonly<Record<FirstCheck, string>> = {
  host: 'host_not_allowed',
  blocklist: 'blocked',
  throttle: 'rate_limited',
  key: 'key_required',
  scope: 'scope_missing',
}

/** Requests that are wrong later on, each in another way. */
const WRONG_LATER = [
  'GET /users/%zz',
  'GET /users/999',
  'GET /users?nonsense=1',
  'PUT /users/1',
  'PATCH /users/abc',
  'POST /users',
  'DELETE /users/999',
]

/** Every two checks, the earlier one first, and each alone. */
const PAIRS = FIRST_CHECKS.flatMap((first, index) =>
  FIRST_CHECKS.slice(index)
    // A request without a key has no scopes either.
    .filter(second => first !== 'key' || second !== 'scope')
    .map(second => [first, second] as const),
)

test.each(PAIRS)(
  '%s answers before %s, and both before all that follows',
  async (first, second) => {
    const broken = new Set<FirstCheck>([first, second])
    const limits = {
      ...(broken.has('blocklist') && { blocklist: [{ name: 'all' }] }),
      ...(broken.has('throttle') && { throttle: [{ limit: 1, period: '1 hour', by: 'path' }] }),
      rateLimits: [{ to: 1, within: '1 hour', by: 'path' }],
    }
    const env = { ALLOWED_HOSTS: 'localhost,127.0.0.1' }
    const keys = [{ name: 'all' }, { name: 'verifier', scopes: ['passwords:verify'] }] as const
    const { port, bearers } = await openKeyedApp(keys, { limits, env })
    for (const line of WRONG_LATER) {
      const headers = [
        `Host: ${broken.has('host') ? 'evil.example' : 'localhost'}`,
        'Connection: close',
        ...(broken.has('key') ? [] : [`Authorization: ${bearers[broken.has('scope') ? 1 : 0]}`]),
        'Accept: text/html',
        'Content-Type: text/plain',
        'Content-Length: 0',
        'If-Match: "other"',
      ]
      const bytes = `${line} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n`
      const answers = []
      for (let time = 0; time < 3; time++) answers.push((await sendRaw(port, bytes).ended)[0])
      const [, , last] = answers
      expect([line, last?.status]).toEqual([line, STATUS_OF[first]])
      expect(JSON.parse(last?.body ?? '').reason).toBe(REASON_OF[first])
    }
  },
)

const TAKEN = ['has already been taken']

test('POST /users reports a taken e-mail together with the other wrong fields', async () => {
  const { http } = await openTestApp()
  await http
    .post('/users')
    .send(newUserBody({ email: 'ann@x.co' }))
    .expect(201)
  const wrong = newUserBody({ name: ' ', email: ' ANN@X.CO ', password: 'short' })
  const { body } = await http.post('/users').send(wrong).expect(422)
  expect(body.errors).toEqual({
    name: ["can't be blank"],
    email: TAKEN,
    password: ['is too short (minimum is 8 characters)'],
  })
  const alone = await http
    .post('/users')
    .send(newUserBody({ email: 'ann@x.co' }))
    .expect(422)
  expect(alone.body.errors).toEqual({ email: TAKEN })
  expect([body.reason, alone.body.reason]).toEqual(['validation_failed', 'email_taken'])
})

test.each(['PUT', 'PATCH'] as const)(
  '%s /users/{id} reports the e-mail of another user together with the other wrong fields',
  async method => {
    const { http } = await openTestApp()
    await http
      .post('/users')
      .send(newUserBody({ email: 'ann@x.co' }))
      .expect(201)
    await http
      .post('/users')
      .send(newUserBody({ email: 'bob@x.co' }))
      .expect(201)
    const update = (fields: object) =>
      http[method === 'PUT' ? 'put' : 'patch']('/users/2').send({ user: fields }).expect(422)
    const taken = await update({ name: null, email: 'Ann@X.co' })
    expect(taken.body.errors).toEqual({ name: ["can't be blank"], email: TAKEN })
    const own = await update({ name: null, email: 'BOB@x.co' })
    expect(own.body.errors).toEqual({ name: ["can't be blank"] })
    const alone = await update({ email: 'ann@x.co' })
    expect(alone.body.errors).toEqual({ email: TAKEN })
    const withPassword = await update({ email: 'ann@x.co', password: 'correct horse' })
    const reasons = [taken, own, alone, withPassword].map(({ body }) => body.reason)
    expect(reasons).toEqual([
      'validation_failed',
      'validation_failed',
      'email_taken',
      'email_taken',
    ])
  },
)

test('an e-mail that is wrong by itself is not reported as taken too', async () => {
  const { http } = await openTestApp()
  await http
    .post('/users')
    .send(newUserBody({ email: 'ann@x.co' }))
    .expect(201)
  const { body } = await http.post('/users').send(newUserBody({ email: 'ann@x.co\u0000' }))
  expect(body.errors).toEqual({ email: ['is invalid'] })
})
