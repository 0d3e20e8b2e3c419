import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import {
  AS_JSON,
  askAndClose,
  askRaw,
  CHUNKED,
  inChunks,
  type RawHeaders,
} from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

/** Ways to break a request, to be combined. */
const NOT_ACCEPTABLE = { Accept: 'text/html' }
const WRONG_TYPE = { 'Content-Type': 'text/plain' }
const WRONG_CODING = { 'Content-Encoding': 'rot13' }
const TOO_LONG = 'x'.repeat(100 * 1024 + 1)
const TOO_LONG_IN_CHUNKS = inChunks(TOO_LONG, TOO_LONG.length)
const BROKEN = '{"user":'
const WRONG_FIELDS = '{"user":{"name":5}}'
const RIGHT_FIELDS = '{"user":{"name":"Other"}}'

const TAKEN_EMAIL = '{"user":{"email":"ann@x.co","password":"correct horse"}}'
const GZIPPED = { ...AS_JSON, 'Content-Encoding': 'gzip' }

const ALL_WRONG = { ...NOT_ACCEPTABLE, ...WRONG_TYPE, ...WRONG_CODING }

/** A request, the status that answers it, and what is wrong with it: the first of them answers. */
type Row = readonly [line: string, number, breaks: string, RawHeaders?, body?: string | Buffer]

const ROWS: readonly Row[] = [
  ['DELETE /%zz', 400, 'path and method'],
  ['PUT /users/%', 400, 'path and all after it', ALL_WRONG, TOO_LONG],
  ['PROPFIND /nowhere', 404, 'an unknown path and method'],
  ['POST /users/', 404, 'an unknown path and all after it', ALL_WRONG, TOO_LONG],
  ['POST /', 405, 'method and Accept', NOT_ACCEPTABLE],
  ['POST /users/999', 405, 'method and user'],
  ['POST /users/abc', 405, 'method and all after it', ALL_WRONG, TOO_LONG],
  ['POST /users', 406, 'Accept and Content-Type', { ...NOT_ACCEPTABLE, ...WRONG_TYPE }, 'x'],
  ['GET /users/999', 406, 'Accept and user', NOT_ACCEPTABLE],
  ['PATCH /users/abc', 406, 'Accept and all after it', ALL_WRONG, TOO_LONG],
  ['POST /users', 415, 'Content-Type and length', WRONG_TYPE, TOO_LONG],
  ['POST /users', 415, 'type and chunks', { ...CHUNKED, ...WRONG_TYPE }, TOO_LONG_IN_CHUNKS],
  ['PUT /users/999', 415, 'coding and length', { ...AS_JSON, ...WRONG_CODING }, TOO_LONG],
  ['POST /users', 415, 'Content-Type and syntax', WRONG_TYPE, BROKEN],
  ['PUT /users/999', 415, 'Content-Type and user', WRONG_TYPE, RIGHT_FIELDS],
  ['POST /users', 413, 'length and syntax', AS_JSON, TOO_LONG],
  ['PATCH /users/1', 413, 'length in chunks and syntax', CHUNKED, TOO_LONG_IN_CHUNKS],
  ['PUT /users/1', 413, 'length once inflated and syntax', GZIPPED, gzipSync(TOO_LONG)],
  ['PUT /users/999', 413, 'length and fields', AS_JSON, WRONG_FIELDS.padEnd(TOO_LONG.length)],
  ['PUT /users/999', 400, 'syntax and user', AS_JSON, BROKEN],
  ['POST /users', 400, 'syntax, before which fields are wrong', AS_JSON, `${WRONG_FIELDS}}`],
  ...['PUT /users/999', 'PATCH /users/abc'].flatMap((line): Row[] => [
    [line, 422, 'fields and user', AS_JSON, WRONG_FIELDS],
    [line, 422, 'the user field and user', AS_JSON, '{}'],
    [line, 404, 'user', AS_JSON, RIGHT_FIELDS],
    [line, 404, 'user and taken e-mail', AS_JSON, TAKEN_EMAIL],
  ]),
]

const app = shareTestApp({
  users: [newUserBody({ email: 'ann@x.co' }), newUserBody({ email: 'bob@x.co' })],
})

test.each(ROWS.map(row => [...row.slice(0, 3), row] as [string, number, string, Row]))(
  '%s answers %d if it breaks %s',
  async (line, winner, _breaks, [, , , headers, body]) => {
    const answer = await askRaw(app.port, line, headers, body)
    expect(answer.status).toBe(winner)
    expect(JSON.parse(answer.body)).toMatchObject({ code: winner, status: false })
  },
)

/** What a request may have wrong before its path is looked at, in the order in which the checks answer. */
const FIRST_CHECKS = [
  ['host', 421, 'host_not_allowed'],
  ['blocklist', 403, 'blocked'],
  ['throttle', 429, 'rate_limited'],
  ['key', 401, 'key_required'],
  ['path', 400, 'path_malformed'],
  ['scope', 403, 'scope_missing'],
] as const

/** Requests that are wrong later on, each in another way. */
const WRONG_LATER = ['GET /users?nonsense=1', 'PUT /users/1', 'DELETE /users/999']

/** Every two checks, the earlier one first, and each alone. */
const PAIRS = FIRST_CHECKS.flatMap(([first, status, reason], index) =>
  FIRST_CHECKS.slice(index)
    // A request without a key has no scopes either.
    .filter(([second]) => first !== 'key' || second !== 'scope')
    .map(([second]) => [first, second, status, reason] as const),
)

test.each(PAIRS)(
  '%s answers before %s, and both before all that follows',
  async (first, second, status, reason) => {
    const broken = new Set<string>([first, second])
    const limits = {
      ...(broken.has('blocklist') && { blocklist: [{ name: 'all' }] }),
      ...(broken.has('throttle') && { throttle: [{ limit: 1, period: '1 hour', by: 'path' }] }),
      rateLimits: [{ to: 1, within: '1 hour', by: 'path' }],
    }
    const env = { ALLOWED_HOSTS: 'localhost,127.0.0.1' }
    const keys = [{ name: 'all' }, { name: 'verifier', scopes: ['passwords:verify'] }] as const
    const { port, bearers } = await openTestApp({ keys, limits, env })
    const bearer = bearers[broken.has('scope') ? 1 : 0] ?? ''
    const headers = {
      ...ALL_WRONG,
      Host: broken.has('host') ? 'evil.example' : 'localhost',
      ...(!broken.has('key') && { Authorization: bearer }),
      'Content-Length': '0',
      'If-Match': '"other"',
    }
    for (const request of WRONG_LATER) {
      const line = broken.has('path') ? request.replace('/users', '/users%zz') : request
      // The third is the first over both limits.
      for (const _ of [1, 2]) await askAndClose(port, line, headers)
      const last = await askAndClose(port, line, headers)
      expect([line, last.status, JSON.parse(last.body).reason]).toEqual([line, status, reason])
    }
  },
)

const BLANK = ["can't be blank"]
const TAKEN = ['has already been taken']
const SHORT = ['is too short (minimum is 8 characters)']

test.each([
  [
    'post /users',
    { name: ' ', email: ' ANN@X.CO ', password: 'short' },
    { name: BLANK, email: TAKEN, password: SHORT },
  ],
  ['post /users', { name: 'Ann', email: 'ann@x.co' }, { email: TAKEN }],
  ['post /users', { name: 'Ann', email: 'ann@x.co\u0000' }, { email: ['is invalid'] }],
  ['put /users/2', { name: null, email: 'Ann@X.co' }, { name: BLANK, email: TAKEN }],
  ['put /users/2', { name: null, email: 'BOB@x.co' }, { name: BLANK }],
  ['patch /users/2', { email: 'ann@x.co', password: 'correct horse' }, { email: TAKEN }],
] as [string, object, Record<string, string[]>][])(
  '%s of %j reports a taken e-mail with the other wrong fields: %j',
  async (line, user, errors) => {
    const [method, path = ''] = line.split(' ') as ['post' | 'put' | 'patch', string]
    const { body } = await app.http[method](path).send({ user }).expect(422)
    expect(body.errors).toEqual(errors)
    const isTakenAlone = Object.values(errors).every(messages => messages === TAKEN)
    expect(body.reason).toBe(isTakenAlone ? 'email_taken' : 'validation_failed')
  },
)
