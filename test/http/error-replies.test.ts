import { STATUS_CODES } from 'node:http'
import { gzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import type { ErrorCode } from '../../src/errors.ts'
import { newUserBody } from '../support/builders.ts'
import { byEngine } from '../support/engine.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import { AS_JSON, askRaw, type RawAnswer, type RawHeaders } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { executeSql, holdWrites } from '../support/sql.ts'
import { until } from '../support/until.ts'

interface RawRequest {
  readonly line: string
  readonly headers?: RawHeaders
  readonly body?: string | Buffer
}

interface Refusal extends RawRequest {
  readonly status: number
  readonly reason: ErrorCode
  readonly errors?: Readonly<Record<string, readonly string[]>>
  readonly allow?: string
  /** The `instance` of a problem, if it is not the path as it was sent. */
  readonly instance?: string
}

const A_USER = JSON.stringify(newUserBody())

const OF_LIST = 'GET, HEAD, POST, DELETE, OPTIONS'
const OF_USER = 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS'
const OF_READS = 'GET, HEAD, OPTIONS'

const WRONG_PATHS = ['/%', '/users/%zz', '/users/%C3%28', '/users/1/%']

const UNKNOWN_PATHS = `
  /user/1 /usersabc /users%2F1 /users.json /users/ /users/1/ /users/1/posts /USERS /livez/ /__proto__`
  .trim()
  .split(/\s+/)

const WRONG_METHODS = [
  ['PUT /users', OF_LIST],
  ['TRACE /users', OF_LIST],
  ['POST /users/1', OF_USER],
  ['PROPFIND /users/1', OF_USER],
  ['POST /users/abc', OF_USER],
  ['DELETE /', OF_READS],
  ['POST /livez', OF_READS],
  ['POST /readyz', OF_READS],
] as const

function wrongBody(status: number, reason: ErrorCode, headers: RawHeaders, body: string | Buffer) {
  return { line: 'POST /users', status, reason, headers, body }
}

function wrongFields(line: string, fields: unknown, errors: Record<string, string[]>) {
  const body = fields === undefined ? '' : JSON.stringify(fields)
  return { line, status: 422, reason: 'validation_failed', headers: AS_JSON, body, errors } as const
}

const REFUSALS: readonly Refusal[] = [
  ...WRONG_PATHS.map(path => ({
    line: `GET ${path}`,
    status: 400,
    reason: 'path_malformed' as const,
    instance: path.replace(/%(?![0-9A-F]{2})/g, '%25'),
  })),
  ...UNKNOWN_PATHS.map(
    path => ({ line: `GET ${path}`, status: 404, reason: 'path_not_found' }) as const,
  ),
  ...WRONG_METHODS.map(
    ([line, allow]) => ({ line, status: 405, reason: 'method_not_allowed', allow }) as const,
  ),
  wrongBody(400, 'body_malformed', AS_JSON, '{"user":{"name":'),
  wrongBody(413, 'body_too_large', AS_JSON, 'n'.repeat(100 * 1024 + 1)),
  wrongBody(413, 'body_too_large', { ...AS_JSON, 'Content-Length': '999999999999' }, ''),
  wrongBody(
    413,
    'body_too_large',
    { ...AS_JSON, 'Content-Encoding': 'gzip' },
    gzipSync(Buffer.alloc(20 * 1024 * 1024, ' ')),
  ),
  wrongBody(415, 'media_type_unsupported', { 'Content-Type': 'text/plain' }, A_USER),
  wrongBody(415, 'encoding_unsupported', { ...AS_JSON, 'Content-Encoding': 'zstd' }, A_USER),
  wrongFields('POST /users', undefined, { user: ['is required'] }),
  wrongFields('POST /users', { user: 'Ann' }, { user: ['must be an object'] }),
  wrongFields(
    'POST /users',
    { user: { name: `\u0000${'n'.repeat(256)}`, password: 'short' } },
    {
      name: ['is too long (maximum is 255 characters)', 'is invalid'],
      email: ["can't be blank"],
      password: ['is too short (minimum is 8 characters)'],
    },
  ),
  wrongFields('PUT /users/1', newUserBody({ email: 'x' }), { email: ['is invalid'] }),
  wrongFields('PATCH /users/1', { user: { name: 5 } }, { name: ['must be a string'] }),
]

const MEMBERS = ['message', 'resource', 'code', 'status', 'reason', 'errors']

/** What 9007199254740993 becomes as a double: on SQLite another id, elsewhere the last one that there can be. */
const ROUNDED_ID = byEngine({ sqlite: '9007199254740992', postgres: '9007199254740991' })

/** All but the last few are no positive integers in plain decimal. */
const WRONG_IDS = `
  abc 0 01 -1 +1 %2B1 1.0 .1 1e0 0x1 1n 1_0 1;v=1 1.json %201 1%0A 1%00 1%2F %D9%A1 NaN %5B1%5D __proto__
  2 9007199254740993 9223372036854775807 9223372036854775808`
  .trim()
  .split(/\s+/)
  .concat('9'.repeat(4000))

describe('with one user', () => {
  const app = shareTestApp({ users: [newUserBody()] })
  const users = async () => (await app.http.get('/users').expect(200)).text
  let before: string

  beforeAll(async () => {
    await executeSql(app.databaseUrl, insertUserWith(ROUNDED_ID))
    before = await users()
  })

  test.each(
    REFUSALS.map(refusal => [refusal.line, refusal.status, refusal.reason, refusal] as const),
  )(
    '%s answers %d %s in either format, and nothing changes',
    async (_line, _status, _reason, refusal) => {
      const { body, headers } = await expectBoth(app, refusal)
      const members = Object.keys(JSON.parse(body))
      expect(members).toEqual(refusal.errors ? MEMBERS : MEMBERS.slice(0, 5))
      const id = headers['x-request-id']
      const line = await until(() => app.logLines.find(({ requestId }) => requestId === id))
      const { status, reason } = refusal
      expect(line).toMatchObject({ msg: 'request', status, reason })
      expect(await users()).toBe(before)
    },
  )

  test.each(WRONG_IDS)('every method on /users/%s answers 404 and changes no user', async id => {
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      const body = method.startsWith('P') ? '{"user":{"name":"Other"}}' : ''
      const line = `${method} /users/${id}`
      await expectBoth(app, { line, status: 404, reason: 'user_not_found', headers: AS_JSON, body })
    }
    expect(await users()).toBe(before)
  })

  test('a client that accepts neither format gets 406 in the structured one', async () => {
    const refusal = { line: 'GET /users/1', status: 406, reason: 'not_acceptable' } as const
    const headers = { Accept: 'text/html, application/xml' }
    expectStructured(await ask(app, { ...refusal, headers }), refusal)
  })

  // Each is a reference to this host, without the query, and a URI.
  test.each([
    ['/users/999?token=secret', '/users/999'],
    ['//users/1', '/.//users/1'],
    ['http://example.com/users/999?x=1', '/users/999'],
    ['/users/"<>\\^`{|}[]', '/users/%22%3C%3E%5C%5E%60%7B%7C%7D%5B%5D'],
  ])('a problem about %s has the instance %s', async (target, instance) => {
    const problem = await askForProblem(app, { line: `GET ${target}` })
    expect(problem.status).toBe(404)
    expect(JSON.parse(problem.body).instance).toBe(instance)
  })
})

const NEEDING_THE_TABLE: readonly RawRequest[] = [
  { line: 'GET /users' },
  { line: 'GET /users/1' },
  { line: 'POST /users', headers: AS_JSON, body: A_USER },
  { line: 'PUT /users/1', headers: AS_JSON, body: A_USER },
  { line: 'PATCH /users/1', headers: AS_JSON, body: '{"user":{"password":"correct horse"}}' },
  { line: 'DELETE /users/1' },
]

const LOST_TABLE = byEngine({
  sqlite: 'no such table: users',
  postgres: 'relation "users" does not exist',
})

describe('without the table of users', () => {
  const app = shareTestApp()
  beforeAll(() => executeSql(app.databaseUrl, 'DROP TABLE users'))

  test.each(NEEDING_THE_TABLE.map(request => [request.line, request] as const))(
    '%s answers 500 to a fault of ours and keeps the detail to the log',
    async (_, request) => {
      const refusal = { ...request, status: 500, reason: 'internal_error' } as const
      const answer = await expectBoth(app, refusal)
      const { headers, body } = answer
      expect(JSON.parse(body).message).toBe('Internal Server Error')
      expect(JSON.stringify(answer)).not.toMatch(/no such table|sqlite|relation|postgres/i)
      const lines = app.logLines.filter(({ requestId }) => requestId === headers['x-request-id'])
      const err = {
        message: expect.stringContaining(LOST_TABLE),
        stack: expect.stringContaining('at '),
      }
      expect(lines.filter(({ level }) => level === 50)).toMatchObject([{ err }])
    },
  )
})

test('writes answer 503 with Retry-After while another process locks the database; reads still work', async () => {
  const app = await openTestApp({ users: [newUserBody()] })
  const { http, databaseUrl, logLines } = app
  const held = await holdWrites(databaseUrl)
  const writes = NEEDING_THE_TABLE.filter(({ line }) => !line.startsWith('GET'))
  const refused = writes.map(request =>
    expectBoth(app, { ...request, status: 503, reason: 'storage_unavailable' }),
  )
  for (const path of ['/users', '/users/1', '/readyz']) await http.get(path).expect(200)
  for (const { headers } of await Promise.all(refused)) {
    const requestId = headers['x-request-id']
    expect(logLines).toContainEqual(expect.objectContaining({ requestId, level: 40 }))
  }
  await held.release()
  await http.put('/users/1').send(newUserBody()).expect(200)
})

function ask({ port }: Pick<TestApp, 'port'>, { line, headers, body }: RawRequest) {
  return askRaw(port, line, headers, body)
}

function askForProblem(app: TestApp, request: RawRequest): Promise<RawAnswer> {
  const headers = { ...request.headers, Accept: 'application/problem+json' }
  return ask(app, { ...request, headers })
}

/** Sends the request twice, for each format at the same time, and expects the refusal. Returns the structured one. */
async function expectBoth(app: TestApp, refusal: Refusal): Promise<RawAnswer> {
  const [answer, problem] = await Promise.all([ask(app, refusal), askForProblem(app, refusal)])
  expectStructured(answer, refusal)
  expectProblem(problem, refusal, JSON.parse(answer.body).message)
  return answer
}

function expectStructured(answer: RawAnswer, refusal: Refusal): void {
  const { line, status, reason, errors } = refusal
  const isOfUsers = /^\S+ \/users(?:\/|$)/.test(line)
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
  expect(JSON.parse(answer.body)).toEqual({
    message: status === 422 ? 'Validation failed' : expect.stringMatching(/\S/),
    resource: isOfUsers ? 'User' : 'Request',
    code: status,
    status: false,
    reason,
    ...(errors && { errors }),
  })
  expectHead(answer, refusal)
}

/** Where Node has the phrases of older RFCs. */
const TITLES: Readonly<Record<number, string>> = {
  413: 'Content Too Large',
  422: 'Unprocessable Content',
}

function expectProblem(answer: RawAnswer, refusal: Refusal, detail: string): void {
  const { line, status, reason, errors, instance = line.split(' ')[1] } = refusal
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(JSON.parse(answer.body)).toEqual({
    type: 'about:blank',
    title: TITLES[status] ?? STATUS_CODES[status],
    status,
    detail,
    instance,
    reason,
    ...(errors && { errors: Object.entries(errors).flatMap(problemsOf) }),
  })
  expectHead(answer, refusal)
}

function problemsOf([field, messages]: [string, readonly string[]]) {
  const pointer = field === 'user' ? '#/user' : `#/user/${field}`
  return messages.map(detail => ({ detail, pointer }))
}

function expectHead({ status, headers }: RawAnswer, refusal: Refusal): void {
  expect(status).toBe(refusal.status)
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    vary: 'Accept',
    'x-content-type-options': 'nosniff',
    'x-request-id': expect.stringMatching(/^[\w.-]{1,128}$/),
  })
  expect(headers).not.toHaveProperty('x-powered-by')
  expect(methodsIn(headers.allow)).toEqual(methodsIn(refusal.allow))
  if (status === 503) expect(headers['retry-after']).toMatch(/^[1-9]\d*$/)
}

function methodsIn(allow: string | undefined): string[] | undefined {
  return allow?.split(', ').toSorted()
}

function insertUserWith(id: string): string {
  return `
    INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
    SELECT ${id}, 'n', 'n', 'n@example.com', created_at, updated_at FROM users`
}
