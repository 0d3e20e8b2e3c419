import { STATUS_CODES } from 'node:http'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import type { ErrorCode } from '../../src/errors.ts'
import { newUserBody } from '../support/builders.ts'
import { byEngine } from '../support/engine.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'
import { executeSql, holdWrites } from '../support/sql.ts'
import { until } from '../support/until.ts'

interface RawRequest {
  readonly line: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

interface Refusal extends RawRequest {
  readonly status: number
  readonly fault: string
  readonly reason: ErrorCode
  readonly resource: 'User' | 'Request'
  readonly errors?: Readonly<Record<string, readonly string[]>>
  readonly allow?: string
  /** The `instance` of a problem, if it is not the path as it was sent. */
  readonly instance?: string
}

const DEFAULT_LIMIT_BYTES = 100 * 1024

const AS_JSON = { 'Content-Type': 'application/json' }

const A_USER = JSON.stringify(newUserBody())

const TOO_LONG = JSON.stringify({ user: { name: 'n'.repeat(DEFAULT_LIMIT_BYTES) } })

const A_BOMB = gzipSync(Buffer.alloc(20 * 1024 * 1024, ' '))

const WRONG_PATHS: readonly Refusal[] = [
  '/%',
  '/%zz',
  '/%FF',
  '/users/%',
  '/users/%zz',
  '/users/%C3%28',
  '/users/%ED%A0%80',
  '/users/1/%',
].map(path => ({
  status: 400,
  fault: 'a path that cannot be decoded',
  reason: 'path_malformed',
  line: `GET ${path}`,
  resource: path.startsWith('/users/') ? 'User' : 'Request',
  instance: path.replace(/%(?![0-9A-F]{2})/g, '%25'),
}))

const WRONG_BODIES: readonly Refusal[] = [
  { fault: 'broken JSON', body: '{"user":{"name":' },
  { fault: 'JSON and more', body: `${A_USER} true` },
  { fault: 'words', body: 'name=Ann' },
  { fault: 'a bare NaN', body: 'NaN' },
  { fault: 'nothing but space', body: '  ' },
  { fault: 'Latin-1', body: Buffer.from('{"user":{"name":"Jos\xe9"}}', 'latin1') },
  { fault: 'UTF-16', body: Buffer.from(A_USER, 'utf16le') },
].map(({ fault, body }) => ({
  status: 400,
  fault: `a body of ${fault}`,
  reason: 'body_malformed',
  line: 'POST /users',
  headers: AS_JSON,
  body,
  resource: 'User',
}))

const UNKNOWN_PATHS: readonly Refusal[] = [
  '/user',
  '/users/',
  '/USERS',
  '/Users/1',
  '/users.json',
  '/users//',
  '/users/1/',
  '/users/1/posts',
  '/users%2F1',
  '/livez/',
  '/LIVEZ',
  '/readyz.json',
  '/favicon.ico',
  '/__proto__',
].map(path => ({
  status: 404,
  fault: 'an unknown path',
  reason: 'path_not_found',
  line: `GET ${path}`,
  resource: path.startsWith('/users/') ? 'User' : 'Request',
}))

const WRONG_METHODS: readonly Refusal[] = [
  {
    path: '/users',
    methods: ['PUT', 'PATCH', 'DELETE', 'TRACE'],
    allow: 'GET, HEAD, POST, OPTIONS',
  },
  {
    path: '/users/1',
    methods: ['POST', 'PROPFIND'],
    allow: 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS',
  },
  { path: '/users/abc', methods: ['POST'], allow: 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS' },
  { path: '/', methods: ['POST', 'PUT', 'PATCH', 'DELETE'], allow: 'GET, HEAD, OPTIONS' },
  { path: '/livez', methods: ['POST', 'DELETE'], allow: 'GET, HEAD, OPTIONS' },
  { path: '/readyz', methods: ['POST', 'DELETE'], allow: 'GET, HEAD, OPTIONS' },
].flatMap(({ path, methods, allow }) =>
  methods.map(method => ({
    status: 405,
    fault: 'a method that the path does not know',
    reason: 'method_not_allowed' as const,
    line: `${method} ${path}`,
    resource: path.startsWith('/users') ? ('User' as const) : ('Request' as const),
    allow,
  })),
)

const TOO_LONG_BODIES: readonly Refusal[] = [
  { fault: 'by its Content-Length', headers: {}, body: TOO_LONG },
  { fault: 'by a Content-Length alone', headers: { 'Content-Length': '999999999999' }, body: '' },
  { fault: 'in chunks', headers: { 'Transfer-Encoding': 'chunked' }, body: inChunks(TOO_LONG) },
  { fault: 'once inflated', headers: { 'Content-Encoding': 'gzip' }, body: A_BOMB },
].map(({ fault, headers, body }) => ({
  status: 413,
  fault: `a body too long ${fault}`,
  reason: 'body_too_large',
  line: 'POST /users',
  headers: { ...AS_JSON, ...headers },
  body,
  resource: 'User',
}))

const WRONG_TYPES: readonly Refusal[] = [
  {},
  { 'Content-Type': 'text/plain' },
  { 'Content-Type': 'application/x-www-form-urlencoded' },
  { 'Content-Type': 'multipart/form-data; boundary=x' },
  { 'Content-Type': 'application/problem+json' },
  { 'Content-Type': 'application/jsonp' },
  { 'Content-Type': 'application/json, text/plain' },
  { 'Content-Type': 'application/json; charset=iso-8859-1' },
  { 'Content-Type': 'application/json; charset="utf-16"' },
  { ...AS_JSON, 'Content-Encoding': 'compress' },
  { ...AS_JSON, 'Content-Encoding': 'zstd' },
  { ...AS_JSON, 'Content-Encoding': 'gzip, gzip' },
  { ...AS_JSON, 'Content-Encoding': 'constructor' },
].flatMap(headers =>
  ['POST /users', 'PUT /users/1', 'PATCH /users/1'].map(line => ({
    status: 415,
    fault: `a body with ${JSON.stringify(headers)}`,
    reason:
      'Content-Encoding' in headers
        ? ('encoding_unsupported' as const)
        : ('media_type_unsupported' as const),
    line,
    headers,
    body: A_USER,
    resource: 'User' as const,
  })),
)

const WRONG_FIELDS: readonly Refusal[] = [
  { line: 'POST /users', fields: undefined, errors: { user: ['is required'] } },
  { line: 'POST /users', fields: { user: 'Ann' }, errors: { user: ['must be an object'] } },
  {
    line: 'POST /users',
    fields: { user: { name: `\u0000${'n'.repeat(256)}`, password: 'short' } },
    errors: {
      name: ['is too long (maximum is 255 characters)', 'is invalid'],
      email: ["can't be blank"],
      password: ['is too short (minimum is 8 characters)'],
    },
  },
  { line: 'PUT /users/1', fields: newUserBody({ email: 'x' }), errors: { email: ['is invalid'] } },
  { line: 'PATCH /users/1', fields: { user: { name: 5 } }, errors: { name: ['must be a string'] } },
].map(({ line, fields, errors }) => ({
  status: 422,
  fault: 'wrong fields',
  reason: 'validation_failed',
  line,
  headers: AS_JSON,
  body: fields === undefined ? '' : JSON.stringify(fields),
  resource: 'User',
  errors: Object.fromEntries(Object.entries(errors)),
}))

/** The user that each of them finds. */
const STORED = newUserBody()

const REFUSALS = [
  ...WRONG_PATHS,
  ...WRONG_BODIES,
  ...UNKNOWN_PATHS,
  ...WRONG_METHODS,
  ...TOO_LONG_BODIES,
  ...WRONG_TYPES,
  ...WRONG_FIELDS,
]

test.each(REFUSALS.map(refusal => [refusal.line, refusal.fault, refusal.status, refusal] as const))(
  '%s with %s answers %d in either format',
  async (_line, _fault, _status, refusal) => {
    const { port, http } = await openTestApp({ users: [STORED] })
    const structured = await ask(port, refusal)
    expectStructured(structured, refusal)
    const problem = await askForProblem(port, refusal)
    expectProblem(problem, refusal, JSON.parse(structured.body).message)
    for (const { headers } of [structured, problem]) {
      expectErrorHeaders(headers)
      expect(methodsIn(headers.allow)).toEqual(methodsIn(refusal.allow))
    }
    // None of them changed anything.
    expect((await http.get('/users').expect(200)).body).toHaveLength(1)
  },
)

const WRONG_IDS = [
  'abc',
  '0',
  '00',
  '01',
  '-1',
  '-0',
  '+1',
  '%2B1',
  '1.0',
  '1.',
  '.1',
  '1e0',
  '0x1',
  '0b1',
  '1n',
  '1_0',
  '1,0',
  '1;v=1',
  '1.json',
  '%201',
  '1%20',
  '1%0A',
  '%091',
  '1%00',
  '1%2F',
  '%D9%A1',
  '%EF%BC%91',
  'null',
  'undefined',
  'NaN',
  'Infinity',
  'true',
  '%5B1%5D',
  '__proto__',
  '2',
  '9007199254740993',
  '9223372036854775807',
  '9223372036854775808',
  '18446744073709551617',
  `1${'0'.repeat(400)}`,
  '9'.repeat(4000),
]

/** What 9007199254740993 becomes as a double: on SQLite another id, elsewhere the last one that there can be. */
const ROUNDED_ID = byEngine({ sqlite: '9007199254740992', postgres: '9007199254740991' })

test.each(WRONG_IDS)('every method on /users/%s answers 404 and changes no user', async id => {
  const { port, http, databaseUrl } = await openTestApp()
  await http.post('/users').send(newUserBody()).expect(201)
  await executeSql(databaseUrl, insertUserWith(ROUNDED_ID))
  const before = (await http.get('/users').expect(200)).text
  for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
    const takesBody = method.startsWith('P')
    const request = {
      line: `${method} /users/${id}`,
      ...(takesBody && { headers: AS_JSON, body: '{"user":{"name":"Other"}}' }),
    }
    const refusal = {
      ...request,
      status: 404,
      fault: 'a wrong id',
      reason: 'user_not_found',
      resource: 'User',
    } as const
    const answer = await ask(port, request)
    expectStructured(answer, refusal)
    expectErrorHeaders(answer.headers)
    expectProblem(await askForProblem(port, request), refusal, JSON.parse(answer.body).message)
  }
  expect((await http.get('/users').expect(200)).text).toBe(before)
})

test('the members of an error are always in the same order, and its log line has the reason of the body', async () => {
  const { port, http, logLines } = await openTestApp()
  await http.post('/users').send(newUserBody()).expect(201)
  for (const refusal of REFUSALS) {
    const { body, headers } = await ask(port, refusal)
    const members = ['message', 'resource', 'code', 'status', 'reason', 'errors']
    expect(Object.keys(JSON.parse(body))).toEqual(refusal.errors ? members : members.slice(0, 5))
    const line = await until(() =>
      logLines.find(({ requestId }) => requestId === headers['x-request-id']),
    )
    expect(line).toMatchObject({ msg: 'request', status: refusal.status, reason: refusal.reason })
  }
})

test('a request that is served has no reason in its log line', async () => {
  const { http, logLines } = await openTestApp()
  await http.get('/users').expect(200)
  const line = await until(() => logLines.find(({ msg }) => msg === 'request'))
  expect(line).not.toHaveProperty('reason')
})

test('GET /users/{id} and DELETE answer 404 for a deleted user', async () => {
  const { port, http } = await openTestApp()
  await http.post('/users').send(newUserBody()).expect(201)
  await http.delete('/users/1').expect(204)
  for (const line of ['GET /users/1', 'DELETE /users/1']) {
    expectStructured(await ask(port, { line }), {
      line,
      status: 404,
      fault: 'a user that is gone',
      reason: 'user_not_found',
      resource: 'User',
    })
  }
})

test.each(['GET /users', 'GET /users/1', 'POST /users', 'PUT /users/1', 'PATCH /users/1'])(
  '%s answers 406, in the structured format, to a client that accepts neither format',
  async line => {
    const { port } = await openTestApp()
    const headers = { Accept: 'text/html, application/xml', ...AS_JSON }
    const body = line.startsWith('P') ? A_USER : ''
    const answer = await ask(port, { line, headers, body })
    expectStructured(answer, {
      line,
      status: 406,
      fault: 'Accept',
      reason: 'not_acceptable',
      resource: 'User',
    })
    expectErrorHeaders(answer.headers)
  },
)

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

test.each(NEEDING_THE_TABLE.map(request => [request.line, request] as const))(
  '%s answers 500 to a fault of ours and keeps the detail to the log',
  async (_, request) => {
    const { port, databaseUrl, logLines } = await openTestApp()
    await executeSql(databaseUrl, 'DROP TABLE users')
    const refusal = {
      ...request,
      status: 500,
      fault: 'a lost table',
      reason: 'internal_error',
      resource: 'User',
    } as const
    const answers = [await ask(port, request), await askForProblem(port, request)] as const
    expectStructured(answers[0], refusal)
    expect(JSON.parse(answers[0].body).message).toBe('Internal Server Error')
    expectProblem(answers[1], refusal, 'Internal Server Error')
    for (const { headers, body } of answers) {
      expectErrorHeaders(headers)
      expect(JSON.stringify({ headers, body })).not.toMatch(
        /no such table|sqlite|relation|postgres/i,
      )
      const lines = logLines.filter(({ requestId }) => requestId === headers['x-request-id'])
      expect(lines).toContainEqual(
        expect.objectContaining({
          level: 50,
          err: expect.objectContaining({
            message: expect.stringContaining(LOST_TABLE),
          }),
        }),
      )
    }
  },
)

test('POST /users answers 500 when a column is gone, and 201 once it is back', async () => {
  const { http, databaseUrl } = await openTestApp()
  await executeSql(databaseUrl, 'ALTER TABLE users RENAME COLUMN name_lower TO elsewhere')
  await http.post('/users').send(newUserBody()).expect(500)
  await executeSql(databaseUrl, 'ALTER TABLE users RENAME COLUMN elsewhere TO name_lower')
  await http.post('/users').send(newUserBody()).expect(201)
})

test('writes answer 503 with Retry-After while another process locks the database; reads still work', async () => {
  const app = await openTestApp()
  const { port, http, databaseUrl, logLines } = app
  await http.post('/users').send(newUserBody()).expect(201)
  const held = await holdWrites(databaseUrl)
  const writes = NEEDING_THE_TABLE.filter(({ line }) => !line.startsWith('GET'))
  const structured = Promise.all(writes.map(request => ask(port, request)))
  const problems = Promise.all(writes.map(request => askForProblem(port, request)))
  await http.get('/users').expect(200)
  await http.get('/users/1').expect(200)
  await http.get('/readyz').expect(200)
  for (const [index, request] of writes.entries()) {
    const refusal = {
      ...request,
      status: 503,
      fault: 'a lock',
      reason: 'storage_unavailable',
      resource: 'User',
    } as const
    const answer = (await structured)[index] as RawAnswer
    const problem = (await problems)[index] as RawAnswer
    expectStructured(answer, refusal)
    expectProblem(problem, refusal, JSON.parse(answer.body).message)
    for (const { headers } of [answer, problem]) {
      expectErrorHeaders(headers)
      expect(headers['retry-after']).toMatch(/^[1-9]\d*$/)
    }
    expect(logLines).toContainEqual(
      expect.objectContaining({ requestId: answer.headers['x-request-id'], level: 40 }),
    )
  }
  await held.release()
  await http.put('/users/1').send(newUserBody()).expect(200)
})

test('errors on paths without a route have the resource "Request"', async () => {
  const { port } = await openTestApp()
  for (const line of ['GET /usersabc', 'GET /users%2f', 'DELETE /', 'GET /user/1']) {
    expect(JSON.parse((await ask(port, { line })).body)).toMatchObject({ resource: 'Request' })
  }
})

test('a problem names the path as its instance without the query', async () => {
  const { port } = await openTestApp()
  const problem = await askForProblem(port, { line: 'GET /users/999?token=secret' })
  expect(JSON.parse(problem.body)).toMatchObject({ status: 404, instance: '/users/999' })
})

test("a problem's instance refers to this host, even if the path begins with two slashes", async () => {
  const { port, url } = await openTestApp()
  const problem = await askForProblem(port, { line: 'GET //users/1' })
  expect(problem.status).toBe(404)
  const { instance } = JSON.parse(problem.body)
  expect(new URL(instance, url).host).toBe(new URL(url).host)
})

async function ask(port: number, { line, headers = {}, body = '' }: RawRequest) {
  const length = Buffer.byteLength(body)
  const isFramed = 'Transfer-Encoding' in headers || 'Content-Length' in headers
  const head = Object.entries({
    Host: 'localhost',
    ...(length > 0 && !isFramed && { 'Content-Length': String(length) }),
    ...headers,
  })
  const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  const bytes = Buffer.concat([
    Buffer.from(`${line} HTTP/1.1\r\n${lines}\r\n`),
    Buffer.from(body as string),
  ])
  // The server must not close it: the unread rest of a long body could then destroy the answer.
  const exchange = sendRaw(port, bytes)
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  if (answer === undefined) throw new Error('no answer')
  return answer
}

function askForProblem(port: number, request: RawRequest): Promise<RawAnswer> {
  const headers = { ...request.headers, Accept: 'application/problem+json' }
  return ask(port, { ...request, headers })
}

function inChunks(text: string): string {
  const chunks = text.match(/.{1,40000}/gs) ?? []
  return `${chunks.map(chunk => `${chunk.length.toString(16)}\r\n${chunk}\r\n`).join('')}0\r\n\r\n`
}

function expectStructured(answer: RawAnswer, { status, reason, resource, errors }: Refusal): void {
  expect(answer.status).toBe(status)
  expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
  expect(JSON.parse(answer.body)).toEqual({
    message: status === 422 ? 'Validation failed' : expect.stringMatching(/\S/),
    resource,
    code: status,
    status: false,
    reason,
    ...(errors && { errors }),
  })
}

function expectProblem(answer: RawAnswer, refusal: Refusal, detail: string): void {
  const { line, status, reason, errors, instance = line.split(' ')[1] } = refusal
  expect(answer.status).toBe(status)
  expect(answer.headers['content-type']).toBe('application/problem+json')
  expect(JSON.parse(answer.body)).toEqual({
    type: 'about:blank',
    title: STATUS_CODES[status],
    status,
    detail,
    instance,
    reason,
    ...(errors && { errors: Object.entries(errors).flatMap(problemsOf) }),
  })
}

function problemsOf([field, messages]: [string, readonly string[]]) {
  const pointer = field === 'user' ? '#/user' : `#/user/${field}`
  return messages.map(detail => ({ detail, pointer }))
}

function expectErrorHeaders(headers: RawAnswer['headers']): void {
  expect(headers).toMatchObject({
    'cache-control': 'no-store',
    vary: 'Accept',
    'x-content-type-options': 'nosniff',
    'x-request-id': expect.stringMatching(/^[\w.-]{1,128}$/),
  })
  expect(headers).not.toHaveProperty('x-powered-by')
}

function methodsIn(allow: string | undefined): string[] | undefined {
  return allow?.split(', ').toSorted()
}

function insertUserWith(id: string): string {
  return `
    INSERT INTO users (id, name, name_lower, email, created_at, updated_at)
    SELECT ${id}, 'n', 'n', 'n@example.com', created_at, updated_at FROM users`
}
