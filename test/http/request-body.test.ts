import { once } from 'node:events'
import { connect } from 'node:net'
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import { describe, expect, onTestFinished, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import {
  AS_JSON,
  askRaw,
  beginPost,
  CHUNKED,
  CLOSING,
  inChunks,
  type RawAnswer,
  type RawHeaders,
  requestBytes,
  sendRaw,
} from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

const CREATE = 'POST /users'

const NO_USER = { user: ['is required'] }

const NO_OBJECT = { user: ['must be an object'] }

const app = shareTestApp()

const ask = (line: string, headers: RawHeaders, body?: string | Buffer) =>
  askRaw(app.port, line, headers, body)

const create = (body: string | Buffer, headers: RawHeaders = AS_JSON) => ask(CREATE, headers, body)

const coded = (coding: string) => ({ ...AS_JSON, 'Content-Encoding': coding })

const typed = (type: string) => ({ 'Content-Type': type })

function textOf(fields: Record<string, unknown> = {}): string {
  return JSON.stringify(newUserBody(fields))
}

/** A body with a value as it is written in JSON, or in other bytes. */
function bodyWith(field: string, value: string | readonly number[]): Buffer {
  const [before = '', after = ''] = textOf({ [field]: 'VALUE' }).split('VALUE')
  const bytes = typeof value === 'string' ? Buffer.from(value) : Buffer.from(value)
  return Buffer.concat([Buffer.from(before), bytes, Buffer.from(after)])
}

function withByte(bytes: Buffer, index: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[index] = ~(copy[index] as number)
  return copy
}

function expectRefusal(answer: RawAnswer | undefined, status: number, errors?: object): void {
  expect(answer?.status).toBe(status)
  expect(JSON.parse(answer?.body ?? '')).toMatchObject({ code: status, ...(errors && { errors }) })
}

const DEPTH = 50_000

const NESTED = `${'['.repeat(DEPTH)}${']'.repeat(DEPTH)}`

const jose = () => textOf({ name: 'José' })

test.each<[string, RawHeaders, string | Buffer, name: string]>([
  ['in the coding GZip', coded('GZip'), gzipSync(jose()), 'José'],
  ['in the coding x-gzip', coded('x-gzip'), gzipSync(jose()), 'José'],
  ['in the coding deflate', coded('deflate'), deflateSync(jose()), 'José'],
  ['in the coding br', coded('br'), brotliCompressSync(jose()), 'José'],
  ['in the coding identity', coded('identity'), jose(), 'José'],
  ['in chunks of gzip', { ...CHUNKED, ...coded('gzip') }, inChunks(gzipSync(jose()), 7), 'José'],
  ['whose chunks divide characters', CHUNKED, inChunks(textOf({ name: '𝒜é' }), 1), '𝒜é'],
  ['after a byte order mark', AS_JSON, `\ufeff${jose()}`, 'José'],
  ['with a surrogate pair', AS_JSON, bodyWith('name', '\\ud83d\\ude00'), '😀'],
  ['with deep unknown keys', AS_JSON, `{"a":${NESTED},${textOf({ name: 'A' }).slice(1)}`, 'A'],
  [
    'with repeated keys, of which the last counts',
    AS_JSON,
    '{"user":5,"user":{"name":"A","email":"a@x.co","name":"B","email":"b@x.co"}}',
    'B',
  ],
  ['after Expect: x=y', { ...AS_JSON, Expect: 'x=y' }, jose(), 'José'],
])('POST /users takes a body %s', async (_, headers, body, name) => {
  const answer = await create(body, headers)
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.body).name).toBe(name)
})

test.each([
  ...['Application/JSON', 'application/json;', 'application/json;Charset="UTF-8"'],
  ...['application/json \t;\t charset=utf-8\t', 'application/json; version=1; charset=utf-8'],
  ...['application/json; profile="a;charset=latin1"; charset=utf-8'],
  ...['application/json; charsets=latin1', 'application/json; charset=utf8'],
  ...['application/json; charset="UTF8"'],
])('POST /users takes a body of Content-Type %j', async type => {
  expect((await create(textOf(), typed(type))).status).toBe(201)
})

test.each<RawHeaders>([
  {},
  ...[
    // What a page of another origin may send without a preflight: the Fetch Standard, "CORS-safelisted request-header".
    ...['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'],
    'text/plain; application/json',
    ...['application/problem+json', 'application/jsonp', 'application/json, text/plain'],
    ...['application/ json', 'json', '*/*', 'application/json; charset="utf-8'],
    ...['application/json;CHARSET="ISO-8859-1"', 'application/json; charset=utf-16'],
    ...['application/json; charset=utf--8', 'application/json; charset=utf_8'],
    ...['application/json; charset=utf-8; charset=latin1'],
    ...[`application/json;${' '.repeat(8000)}charset=latin1`],
  ].map(typed),
  ...['zstd', 'gzip, gzip', 'constructor'].map(coded),
])('POST, PUT and PATCH answer 415 to a body with %j', async headers => {
  for (const line of [CREATE, 'PUT /users/1', 'PATCH /users/1']) {
    expectRefusal(await ask(line, headers, textOf()), 415)
  }
})

test.each<[string, number, RawHeaders]>([
  ['no Content-Type', 415, {}],
  ['another Content-Type', 415, typed('text/plain')],
  ['a content coding', 400, coded('gzip')],
  ['an unknown content coding', 415, coded('x')],
])(
  'POST /users with %s answers 422 to an empty body, and %d to one byte, however long it says it is',
  async (_, status, headers) => {
    const chunked = { ...headers, 'Transfer-Encoding': 'chunked' }
    expectRefusal(await create('', headers), 422, NO_USER)
    expectRefusal(await create('', { ...headers, 'Content-Length': '0' }), 422, NO_USER)
    expectRefusal(await create('0\r\n\r\n', chunked), 422, NO_USER)
    expectRefusal(await create(' ', headers), status)
    expectRefusal(await create(inChunks(' ', 1), chunked), status)
  },
)

const GZIPPED = gzipSync(textOf())

test.each([
  ['gzip', 'no gzip at all', textOf()],
  ['gzip', 'gzip without its trailer', GZIPPED.subarray(0, -8)],
  ['gzip', 'gzip with a wrong checksum', withByte(GZIPPED, GZIPPED.length - 8)],
  ['gzip', 'deflate', deflateSync(textOf())],
  ['deflate', 'gzip', GZIPPED],
  ['br', 'half a brotli', brotliCompressSync(textOf()).subarray(0, 20)],
  ['gzip', 'gzipped Latin-1', gzipSync(Buffer.from('{"user":"\xe9"}', 'latin1'))],
  ['gzip', 'a body gzipped twice', gzipSync(GZIPPED)],
  ['identity', 'JSON and more', `${textOf()} true`],
  ['identity', 'a bare NaN', 'NaN'],
  ['identity', 'nothing but space', '  '],
  ['identity', 'UTF-16', Buffer.from(textOf(), 'utf16le')],
  ['identity', 'a character that the end cuts off', Buffer.from(`${textOf()}\xc3`, 'latin1')],
  ['identity', 'objects without an end', '{"user":'.repeat(10_000)],
  ['identity', 'a surrogate', bodyWith('name', [0xed, 0xa0, 0x80])],
  ['identity', 'an overlong NUL', bodyWith('name', [0xc0, 0x80])],
  ['identity', 'a lone continuation byte', bodyWith('name', [0x80])],
  ['identity', 'a character beyond the last', bodyWith('name', [0xf4, 0x90, 0x80, 0x80])],
  ['identity', 'a raw line feed', bodyWith('name', [0x0a])],
])('POST /users in the content coding %s answers 400 to %s', async (coding, _, body) => {
  expectRefusal(await create(body, coded(coding)), 400)
})

test('POST /users names a Content-Encoding that the body does not have', async () => {
  const { body } = await create(textOf(), coded('gzip'))
  expect(JSON.parse(body)).toMatchObject({
    message: 'The body is not in the format that its Content-Encoding names',
    reason: 'body_malformed',
  })
})

test.each<readonly [body: string, errors: object]>([
  ...['null', '5', '""', '[{"user":{}}]', '{}', '{"User":{}}', '{"user":null}'].map(
    body => [body, NO_USER] as const,
  ),
  ...['5', 'false', '[]'].map(user => [`{"user":${user}}`, NO_OBJECT] as const),
  ['{"user":{}}', { name: ["can't be blank"], email: ["can't be blank"] }],
])('POST /users answers 422 to the body %s', async (body, errors) => {
  expectRefusal(await create(body), 422, errors)
})

test.each([
  ['the body', NESTED],
  ['user', `{"user":${NESTED}}`],
  ['name', `{"user":{"name":${NESTED}}}`],
  ['password', `{"user":{"password":${NESTED}}}`],
])('POST /users answers 422 to deep nesting of %s and lives on', async (_, body) => {
  expectRefusal(await create(body), 422)
  await app.http.post('/users').send(newUserBody()).expect(201)
})

const LIMIT_BYTES = 300

describe(`with a BODY_LIMIT of ${LIMIT_BYTES} bytes`, () => {
  const limited = shareTestApp({ env: { BODY_LIMIT: `${LIMIT_BYTES}b` }, users: [newUserBody()] })

  /** Gzip that shrinks nothing, and so is longer than its content. */
  const storedGzip = (text: string) => gzipSync(text, { level: constants.Z_NO_COMPRESSION })

  test.each<[string, RawHeaders, (text: string) => string | Buffer]>([
    ['with a Content-Length', AS_JSON, text => text],
    ['in many chunks', CHUNKED, text => inChunks(text, 1)],
    ['in gzip', coded('gzip'), text => gzipSync(text)],
    ['in stored gzip', coded('gzip'), storedGzip],
    ['in brotli', coded('br'), text => brotliCompressSync(text)],
    ['in chunks of gzip', { ...CHUNKED, ...coded('gzip') }, text => inChunks(gzipSync(text), 50)],
  ])('as many are taken %s, and one more is 413', async (_, headers, send) => {
    for (const [line, status] of [
      [CREATE, 201],
      ['PUT /users/1', 200],
      ['PATCH /users/1', 200],
    ] as const) {
      const longest = textOf().padEnd(LIMIT_BYTES)
      expectRefusal(await askRaw(limited.port, line, headers, send(`${longest} `)), 413)
      const answer = await askRaw(limited.port, line, headers, send(longest))
      expect([line, answer.status]).toEqual([line, status])
    }
  })
})

test.each<[string, RawHeaders, string]>([
  ['broken JSON', AS_JSON, '{"user'],
  ['a wrong type and coding', { ...typed('text/html'), 'Content-Encoding': 'rot13' }, '<p>'],
  ['more than the limit', AS_JSON, 'x'.repeat(200_000)],
  ['chunks', { 'Transfer-Encoding': 'chunked' }, '3\r\nabc\r\n0\r\n\r\n'],
])('GET and DELETE ignore a body of %s', async (_, headers, body) => {
  const created = await app.http.post('/users').send(newUserBody()).expect(201)
  const path = created.headers.location
  for (const line of ['GET /users', `GET ${path}`, 'GET /livez']) {
    expect((await ask(line, headers, body)).status).toBe(200)
  }
  expect((await ask(`DELETE ${path}`, headers, body)).status).toBe(204)
})

test('a body that was ignored does not count as the next request', async () => {
  const hidden = 'DELETE /users/1 HTTP/1.1\r\nHost: x\r\n\r\n'
  const requests = [requestBytes('GET /', {}, hidden), requestBytes('GET /livez', CLOSING)]
  const answers = await sendRaw(app.port, Buffer.concat(requests)).ended
  expect(answers.map(({ status }) => status)).toEqual([200, 200])
  expect(answers[1]?.body).toBe('{"status":"ok"}')
})

test('Expect: 100-continue is answered before the body is sent', async () => {
  const post = await beginPost(app.port, CLOSING)
  post.finish()
  expect(await post.ended).toMatchObject([{ status: 100 }, { status: 201 }])
})

const FIVE_MB = Buffer.alloc(5_000_000, 'x')

test.each<[string, RawHeaders, Buffer]>([
  ['with a Content-Length', AS_JSON, FIVE_MB],
  ['in chunks', CHUNKED, inChunks(FIVE_MB, 100_000)],
])(
  'a connection whose over-long body %s was refused is closed, once its client has read the answer',
  async (_, headers, body) => {
    const exchange = sendRaw(app.port, requestBytes(CREATE, headers, body))
    await exchange.answers(1)
    exchange.socket.write(requestBytes(CREATE, AS_JSON, textOf()))
    const answers = await exchange.ended
    expect(answers).toHaveLength(1)
    expectRefusal(answers[0], 413)
    expect(answers[0]?.headers.connection).toBe('close')
  },
)

test('a connection whose body was refused unread serves the next request', async () => {
  const requests = [
    requestBytes('POST /users', typed('text/plain'), textOf()),
    requestBytes('POST /nowhere', AS_JSON, textOf()),
    requestBytes('PUT /users', AS_JSON, textOf()),
    requestBytes('GET /users', CLOSING),
  ]
  const answers = await sendRaw(app.port, Buffer.concat(requests)).ended
  expect(answers.map(({ status }) => status)).toEqual([415, 404, 405, 200])
})

const WAITING_BODY = { ...AS_JSON, Expect: '100-continue' }

test.each<[status: number, line: string, headers: RawHeaders]>([
  [404, 'POST /nowhere', {}],
  [405, 'PUT /users', {}],
  [406, CREATE, { Accept: 'image/png' }],
  [413, CREATE, { 'Content-Length': '200000' }],
  [415, CREATE, { 'Content-Type': 'text/plain' }],
  [415, CREATE, { ...CHUNKED, 'Content-Type': 'text/plain' }],
  [415, CREATE, { 'Content-Encoding': 'zstd' }],
])(
  'what the head decides, as %i of %s, does not invite the body',
  async (status, line, headers) => {
    const length = 'Transfer-Encoding' in headers ? {} : { 'Content-Length': '20' }
    const all = { ...WAITING_BODY, ...length, ...headers }
    // The connection ends although the client keeps it open: nobody can know whether the body follows.
    const answers = await sendRaw(app.port, requestBytes(line, all)).ended
    expect(answers).toMatchObject([{ status, headers: { connection: 'close' } }])
  },
)

test.each<[what: string, version: string, line: string, headers: RawHeaders, status: number]>([
  ['uninvited to no route', '1.1', 'POST /nowhere', WAITING_BODY, 404],
  ['uninvited', '1.1', CREATE, WAITING_BODY, 413],
  ['on a connection that it closes', '1.1', CREATE, { ...typed('text/plain'), ...CLOSING }, 415],
  ['in HTTP/1.0', '1.0', CREATE, typed('text/plain'), 415],
])(
  'a client that sends its refused body %s is not reset, which could cost it the answer',
  async (_, version, line, headers, status) => {
    const socket = connect({ port: app.port, host: '127.0.0.1', allowHalfOpen: true })
    onTestFinished(() => void socket.destroy())
    const head = requestBytes(line, { 'Content-Length': `${FIVE_MB.length}`, ...headers })
    socket.write(String(head).replace('HTTP/1.1', `HTTP/${version}`))
    const [answer] = await once(socket, 'data')
    expect(String(answer)).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    socket.resume().end(FIVE_MB)
    // Rejects when the connection is reset.
    await once(socket, 'close')
  },
)

test('a key that is missing and a limit that is reached do not invite the body', async () => {
  const keyed = await openTestApp({ env: { API_KEYS: 'required' } })
  const rule = { name: 'creates', to: 1, within: '1 day', only: ['create'] }
  const limited = await openTestApp({ limits: { rateLimits: [rule] } })
  await limited.http.post('/users').send({}).expect(422)
  const all = { ...WAITING_BODY, 'Content-Length': '20' }
  for (const [{ port }, status] of [
    [keyed, 401],
    [limited, 429],
  ] as const) {
    expect(await sendRaw(port, requestBytes(CREATE, all)).ended).toMatchObject([{ status }])
  }
})

test.each(['application/merge-patch+json', 'application/merge-patch+json; charset=utf-8'])(
  'PATCH takes %s, and PUT and POST do not',
  async type => {
    const { id } = (await app.http.post('/users').send(JSON.parse(textOf())).expect(201)).body
    const send = (method: 'patch' | 'put' | 'post', path: string) =>
      app.http[method](path).set('Content-Type', type).send('{"user":{"name":"Joe"}}')
    const patched = await send('patch', `/users/${id}`).expect(200)
    expect(patched.body).toMatchObject({ id, name: 'Joe' })
    await send('put', `/users/${id}`).expect(415)
    await send('post', '/users').expect(415)
  },
)

test('Accept-Patch says what PATCH takes, on OPTIONS and 415', async () => {
  const types = 'application/json, application/merge-patch+json'
  const { headers } = await app.http.options('/users/1').expect(204)
  expect(headers['accept-patch']).toBe(types)
  const refused = await app.http.patch('/users/1').set('Content-Type', 'text/plain').send('x')
  expect([refused.status, refused.headers['accept-patch']]).toEqual([415, types])
  const others = [app.http.options('/users'), app.http.put('/users/1').type('text/plain').send('x')]
  for (const other of others) expect((await other).headers).not.toHaveProperty('accept-patch')
})
