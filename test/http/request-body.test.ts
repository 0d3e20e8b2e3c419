import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../support/raw-http.ts'

type Headers = Readonly<Record<string, string>>

const CREATE = 'POST /users'

const AS_JSON = { 'Content-Type': 'application/json' }

const CHUNKED = { ...AS_JSON, 'Transfer-Encoding': 'chunked' }

const CLOSING = { Connection: 'close' }

const BLANK_FIELDS = { name: ["can't be blank"], email: ["can't be blank"] }

const NO_USER = { user: ['is required'] }

test.each([
  ['gzip', gzipSync],
  ['GZip', gzipSync],
  ['x-gzip', gzipSync],
  ['deflate', deflateSync],
  ['br', brotliCompressSync],
  ['identity', (text: string) => Buffer.from(text)],
] as const)('POST /users takes a body in the content coding %s', async (coding, compress) => {
  const { port } = await openTestApp()
  const headers = { ...AS_JSON, 'Content-Encoding': coding }
  const answer = await ask(port, CREATE, headers, compress(textOf({ name: 'José' })))
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.body)).toMatchObject({ id: 1, name: 'José' })
})

test('POST /users takes a body that is compressed and in chunks', async () => {
  const { port } = await openTestApp()
  const headers = { ...CHUNKED, 'Content-Encoding': 'gzip' }
  const answer = await ask(port, CREATE, headers, inChunks(gzipSync(textOf()), 7))
  expect(answer.status).toBe(201)
})

test('POST /users takes a character whose bytes are in different chunks', async () => {
  const { port } = await openTestApp()
  const answer = await ask(port, CREATE, CHUNKED, inChunks(Buffer.from(textOf({ name: '𝒜é' })), 1))
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.body).name).toBe('𝒜é')
})

test.each<[string, Headers]>([
  ['no Content-Type', {}],
  ['another Content-Type', { 'Content-Type': 'text/plain' }],
  ['a content coding', { ...AS_JSON, 'Content-Encoding': 'gzip' }],
  ['an unknown content coding', { ...AS_JSON, 'Content-Encoding': 'x' }],
])(
  'POST /users with %s answers 422 to an empty body, and 415 or 400 to one byte, however long it says it is',
  async (_, headers) => {
    const { port } = await openTestApp()
    const chunked = { ...headers, 'Transfer-Encoding': 'chunked' }
    expectRefusal(await ask(port, CREATE, { ...headers, 'Content-Length': '0' }, ''), 422, NO_USER)
    expectRefusal(await ask(port, CREATE, chunked, '0\r\n\r\n'), 422, NO_USER)
    const status = headers['Content-Encoding'] === 'gzip' ? 400 : 415
    expectRefusal(await ask(port, CREATE, headers, ' '), status)
    expectRefusal(await ask(port, CREATE, chunked, inChunks(Buffer.from(' '), 1)), status)
  },
)

const GZIPPED = gzipSync(textOf())

test.each([
  ['gzip', 'no gzip at all', Buffer.from(textOf())],
  ['gzip', 'half a gzip', GZIPPED.subarray(0, GZIPPED.length / 2)],
  ['gzip', 'gzip without its trailer', GZIPPED.subarray(0, -8)],
  ['gzip', 'gzip with a wrong checksum', withByte(GZIPPED, GZIPPED.length - 8)],
  ['gzip', 'gzip with a wrong byte', withByte(GZIPPED, 14)],
  ['gzip', 'deflate', deflateSync(textOf())],
  ['deflate', 'gzip', GZIPPED],
  ['br', 'gzip', GZIPPED],
  ['br', 'half a brotli', brotliCompressSync(textOf()).subarray(0, 20)],
  ['gzip', 'gzipped words', gzipSync('name=Ann')],
  ['gzip', 'gzipped Latin-1', gzipSync(Buffer.from('{"user":"\xe9"}', 'latin1'))],
  ['gzip', 'a body gzipped twice', gzipSync(GZIPPED)],
])('POST /users in the content coding %s answers 400 to %s', async (coding, _, body) => {
  const { port } = await openTestApp()
  const answer = await ask(port, CREATE, { ...AS_JSON, 'Content-Encoding': coding }, body)
  expectRefusal(answer, 400)
})

const LIMIT_BYTES = 300

/** Gzip that shrinks nothing, and so is longer than its content. */
const storedGzip = (bytes: Buffer) => gzipSync(bytes, { level: constants.Z_NO_COMPRESSION })

test.each<[string, Headers, (bytes: Buffer) => Buffer]>([
  ['with a Content-Length', AS_JSON, bytes => bytes],
  ['in one chunk', CHUNKED, bytes => inChunks(bytes, LIMIT_BYTES + 1)],
  ['in many chunks', CHUNKED, bytes => inChunks(bytes, 1)],
  ['in gzip', { ...AS_JSON, 'Content-Encoding': 'gzip' }, bytes => gzipSync(bytes)],
  ['in stored gzip', { ...AS_JSON, 'Content-Encoding': 'gzip' }, storedGzip],
  ['in deflate', { ...AS_JSON, 'Content-Encoding': 'deflate' }, bytes => deflateSync(bytes)],
  ['in brotli', { ...AS_JSON, 'Content-Encoding': 'br' }, bytes => brotliCompressSync(bytes)],
  [
    'in gzip and chunks',
    { ...CHUNKED, 'Content-Encoding': 'gzip' },
    bytes => inChunks(gzipSync(bytes), 50),
  ],
])(
  'POST /users takes BODY_LIMIT bytes %s and answers 413 to one more',
  async (_, headers, send) => {
    const { port } = await openTestApp({ env: { BODY_LIMIT: `${LIMIT_BYTES}b` } })
    const longest = Buffer.from(textOf().padEnd(LIMIT_BYTES))
    expectRefusal(await ask(port, CREATE, headers, send(Buffer.concat([longest, SPACE]))), 413)
    expect((await ask(port, CREATE, headers, send(longest))).status).toBe(201)
  },
)

const SPACE = Buffer.from(' ')

test('PUT and PATCH /users/{id} have the same limit', async () => {
  const { port, http } = await openTestApp({ env: { BODY_LIMIT: '1kb' } })
  await http.post('/users').send(newUserBody()).expect(201)
  for (const line of ['PUT /users/1', 'PATCH /users/1']) {
    expect((await ask(port, line, AS_JSON, textOf().padEnd(1024))).status).toBe(200)
    expectRefusal(await ask(port, line, AS_JSON, textOf().padEnd(1025)), 413)
  }
})

test.each([
  'application/json',
  'Application/JSON',
  ' application/json ',
  'application/json;',
  'application/json; charset=utf-8',
  'application/json;charset=UTF-8',
  'application/json;Charset=Utf-8',
  'application/json; charset="utf-8"',
  'application/json; charset="UTF-8"',
  'application/json \t;\t charset=utf-8\t',
  'application/json; version=1; charset=utf-8',
  'application/json; charset=utf-8; version=1',
  'application/json; profile="https://example.com/?charset=latin1"',
  'application/json; profile="a;charset=latin1"; charset=utf-8',
  'application/json; charsets=latin1',
])('POST /users takes a body of Content-Type %j', async type => {
  const { port } = await openTestApp()
  expect((await ask(port, CREATE, { 'Content-Type': type }, textOf())).status).toBe(201)
})

test.each([
  'application/json;   charset=latin1',
  `application/json;${' '.repeat(8000)}charset=latin1`,
  `application/json${' '.repeat(8000)};charset=latin1`,
  `application/json;charset=${' '.repeat(8000)}latin1`,
  `application/json${';'.repeat(8000)}charset=latin1`,
  'application/json;CHARSET="ISO-8859-1"',
  'application/json; charset=utf-16',
  'application/json; charset="utf-8',
  'application/json; charset=utf-8; charset=latin1',
  'application/json; version=1; charset=us-ascii',
  'application/ json',
  'application',
  'json',
  '*/*',
  'text/json',
  'text/plain; application/json',
])('POST /users answers 415 to a body of Content-Type %j', async type => {
  const { port } = await openTestApp()
  expectRefusal(await ask(port, CREATE, { 'Content-Type': type }, textOf()), 415)
})

test.each<[string, Headers, string]>([
  ['no length', {}, ''],
  ['no length and a wrong type', { 'Content-Type': 'text/plain' }, ''],
  ['a Content-Length of 0', { 'Content-Length': '0' }, ''],
  ['a Content-Length of 0 and a type', { ...AS_JSON, 'Content-Length': '0' }, ''],
  ['a Content-Length of 00', { ...AS_JSON, 'Content-Length': '00' }, ''],
  ['no chunk but the last', CHUNKED, '0\r\n\r\n'],
])('POST /users answers 422 to an empty body with %s', async (_, headers, body) => {
  const { port } = await openTestApp()
  expectRefusal(await ask(port, CREATE, headers, body), 422, NO_USER)
})

test.each([
  ['null', NO_USER],
  ['5', NO_USER],
  ['true', NO_USER],
  ['"x"', NO_USER],
  ['""', NO_USER],
  ['[]', NO_USER],
  ['[{"user":{}}]', NO_USER],
  ['{}', NO_USER],
  ['{"User":{}}', NO_USER],
  ['{"user":null}', NO_USER],
  ['{"user":5}', { user: ['must be an object'] }],
  ['{"user":false}', { user: ['must be an object'] }],
  ['{"user":"x"}', { user: ['must be an object'] }],
  ['{"user":[]}', { user: ['must be an object'] }],
  ['{"user":{}}', BLANK_FIELDS],
])('POST /users answers 422 to the body %s', async (body, errors) => {
  const { port } = await openTestApp()
  expectRefusal(await ask(port, CREATE, AS_JSON, body), 422, errors)
})

test('POST /users takes a body that begins with a byte order mark', async () => {
  const { port } = await openTestApp()
  const answer = await ask(port, CREATE, AS_JSON, `\ufeff${textOf({ name: 'Ann' })}`)
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.body).name).toBe('Ann')
})

test('POST /users takes the last value of a repeated key', async () => {
  const { port } = await openTestApp()
  const body = '{"user":5,"user":{"name":"A","email":"a@x.co","name":"B","email":"b@x.co"}}'
  const answer = await ask(port, CREATE, AS_JSON, body)
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.body)).toMatchObject({ name: 'B', email: 'b@x.co' })
})

/** Keys that every object inherits, with values to do harm if they were merged or called. */
const INHERITED_KEYS = `"__proto__":{"polluted":true,"name":5,"password":5,"user":5},
  "constructor":{"prototype":{"polluted":true}},"prototype":{"polluted":true},
  "toString":"x","valueOf":null,"hasOwnProperty":1,"toJSON":"x","then":"x"`

test('POST /users ignores keys that every object inherits, beside and inside of user', async () => {
  const { port } = await openTestApp()
  const body = `{${INHERITED_KEYS},"user":{${INHERITED_KEYS},"name":"Ann","email":"a@x.co"}}`
  const keysBefore = Reflect.ownKeys(Object.prototype)
  const answer = await ask(port, CREATE, AS_JSON, body)
  expect(answer.status).toBe(201)
  const user = JSON.parse(answer.body)
  expect(Object.keys(user)).toEqual(['id', 'name', 'email', 'created_at', 'updated_at'])
  expect(user).toMatchObject({ id: 1, name: 'Ann', email: 'a@x.co' })
  expect(Reflect.ownKeys(Object.prototype)).toEqual(keysBefore)
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
})

test.each([
  ['{"__proto__":{"user":{"name":"Ann","email":"a@x.co"}}}', NO_USER],
  ['{"user":{"__proto__":{"name":"Ann","email":"a@x.co"}}}', BLANK_FIELDS],
  ['{"constructor":{"user":{"name":"Ann","email":"a@x.co"}}}', NO_USER],
])('POST /users finds no field in the prototype of %s', async (body, errors) => {
  const { port } = await openTestApp()
  expectRefusal(await ask(port, CREATE, AS_JSON, body), 422, errors)
})

test('POST /users ignores attributes that the service sets itself', async () => {
  const { port } = await openTestApp()
  const invented = { id: 77, created_at: '2000-01-01', updated_at: 0, version: 9, admin: true }
  const body = JSON.stringify({ ...newUserBody(invented), token: 'x' })
  const answer = await ask(port, CREATE, AS_JSON, body)
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.body)).toMatchObject({ id: 1 })
  expect(answer.body).not.toMatch(/2000-01-01|admin|token/)
})

const DEPTH = 50_000

const NESTED = `${'['.repeat(DEPTH)}${']'.repeat(DEPTH)}`

test.each([
  ['the body', NESTED, 422],
  ['user', `{"user":${NESTED}}`, 422],
  ['name', `{"user":{"name":${NESTED}}}`, 422],
  ['password', `{"user":{"password":${NESTED}}}`, 422],
  ['objects', '{"user":'.repeat(10_000), 400],
  ['arrays without an end', '['.repeat(100_000), 400],
])('POST /users answers to deep nesting of %s and lives on', async (_, body, status) => {
  const { port, http } = await openTestApp()
  expectRefusal(await ask(port, CREATE, AS_JSON, body), status)
  await http.post('/users').send(newUserBody()).expect(201)
})

test('POST /users ignores deep nesting of unknown keys', async () => {
  const { port } = await openTestApp()
  const body = `{"other":${NESTED},${textOf().slice(1)}`
  expect((await ask(port, CREATE, AS_JSON, body)).status).toBe(201)
})

test.each([
  ['name', 'a\\ud800'],
  ['name', '\\udc00a'],
  ['name', 'a\\udc00\\ud800b'],
  ['name', 'a\\u0000b'],
  ['name', 'a\\u0007b'],
  ['name', 'a\\nb'],
  ['name', 'a\\u007fb'],
  ['name', 'a\\u0085b'],
  ['email', '\\ud800a@x.co'],
  ['email', 'a\\u0000@x.co'],
  ['email', 'a@x.co\\u0000'],
  ['password', 'long enough\\ud800'],
  ['password', 'long enough\\udfff'],
  ['password', 'long enough\\u0000'],
  ['password', 'long\\tenough'],
  ['password', 'long enough\\u009f'],
])('POST /users answers 422 to a %s of "%s"', async (field, escaped) => {
  const { port } = await openTestApp()
  const body = textOf({ [field]: 'VALUE' }).replace('VALUE', () => escaped)
  expectRefusal(await ask(port, CREATE, AS_JSON, body), 422, { [field]: ['is invalid'] })
})

test('POST /users takes a surrogate pair as one character', async () => {
  const { port } = await openTestApp()
  const body = textOf({ name: 'VALUE' }).replace('VALUE', '\\ud83d\\ude00')
  const answer = await ask(port, CREATE, AS_JSON, body)
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.body).name).toBe('😀')
})

test.each([
  ['a surrogate', [0xed, 0xa0, 0x80]],
  ['a surrogate pair, as CESU-8 has it', [0xed, 0xa0, 0xbd, 0xed, 0xb8, 0x80]],
  ['an overlong slash', [0xc0, 0xaf]],
  ['an overlong NUL', [0xc0, 0x80]],
  ['an overlong form of three bytes', [0xe0, 0x80, 0xaf]],
  ['a truncated character', [0xe2, 0x82]],
  ['a lone continuation byte', [0x80]],
  ['a character beyond the last', [0xf4, 0x90, 0x80, 0x80]],
  ['a form of five bytes', [0xf8, 0x88, 0x80, 0x80, 0x80]],
  ['a byte of 0xff', [0xff]],
  ['a raw NUL', [0x00]],
  ['a raw line feed', [0x0a]],
])('POST /users answers 400 to %s in a name', async (_, bytes) => {
  const { port } = await openTestApp()
  const [before = '', after = ''] = textOf({ name: 'VALUE' }).split('VALUE')
  const body = Buffer.concat([Buffer.from(before), Buffer.from(bytes), Buffer.from(after)])
  expectRefusal(await ask(port, CREATE, AS_JSON, body), 400)
})

test('POST /users answers 400 to a character that is cut off by the end of the body', async () => {
  const { port } = await openTestApp()
  const body = Buffer.concat([Buffer.from(textOf()), Buffer.from([0xc3])])
  expectRefusal(await ask(port, CREATE, AS_JSON, body), 400)
})

test.each<[string, Headers, string]>([
  ['broken JSON', AS_JSON, '{"user'],
  ['a wrong type', { 'Content-Type': 'text/html' }, '<p>'],
  ['no type', {}, 'x'],
  ['an unknown coding', { ...AS_JSON, 'Content-Encoding': 'rot13' }, 'x'],
  ['more than the limit', AS_JSON, 'x'.repeat(200_000)],
  ['chunks', { 'Transfer-Encoding': 'chunked' }, '3\r\nabc\r\n0\r\n\r\n'],
])('GET, HEAD and DELETE ignore a body of %s', async (_, headers, body) => {
  const { port, http } = await openTestApp()
  await http.post('/users').send(newUserBody()).expect(201)
  const gets = ['GET /users', 'GET /users/1', 'GET /', 'GET /livez']
  for (const line of gets) expect((await ask(port, line, headers, body)).status).toBe(200)
  const next = request('GET /livez', CLOSING)
  const exchange = sendRaw(port, Buffer.concat([request('HEAD /users/1', headers, body), next]))
  let received = ''
  exchange.socket.on('data', chunk => {
    received += chunk
  })
  await exchange.ended
  expect(received).toMatch(/^HTTP\/1\.1 200 OK\r\n([^\r]+\r\n)+\r\nHTTP\/1\.1 200 OK\r\n/)
  expect((await ask(port, 'DELETE /users/1', headers, body)).status).toBe(204)
})

test('a body that was ignored does not count as the next request', async () => {
  const { port } = await openTestApp()
  const hidden = 'DELETE /users/1 HTTP/1.1\r\nHost: x\r\n\r\n'
  const requests = [request('GET /users', {}, hidden), request('GET /livez', CLOSING)]
  const answers = await sendRaw(port, Buffer.concat(requests)).ended
  expect(answers.map(({ body }) => body)).toEqual(['[]', '{"status":"ok"}'])
})

test('Expect: 100-continue is answered before the body is sent', async () => {
  const { port } = await openTestApp()
  const body = textOf()
  const headers = { ...AS_JSON, ...CLOSING, Expect: '100-continue' }
  const exchange = sendRaw(
    port,
    request(CREATE, { ...headers, 'Content-Length': `${body.length}` }),
  )
  expect(await exchange.answers(1)).toMatchObject([{ status: 100 }])
  exchange.socket.write(body)
  expect(await exchange.ended).toMatchObject([{ status: 100 }, { status: 201 }])
})

test.each(['200-ok', 'x=y', ''])('Expect: %s is ignored', async expectation => {
  const { port } = await openTestApp()
  const answer = await ask(port, CREATE, { ...AS_JSON, Expect: expectation }, textOf())
  expect(answer.status).toBe(201)
})

test.each<[string, Headers, Buffer]>([
  ['with a Content-Length', AS_JSON, Buffer.alloc(5_000_000, 'x')],
  ['in chunks', CHUNKED, inChunks(Buffer.alloc(5_000_000, 'x'), 100_000)],
])(
  'a connection whose over-long body %s was refused serves the next request',
  async (_, headers, body) => {
    const { port } = await openTestApp()
    const exchange = sendRaw(port, request(CREATE, headers, body))
    await exchange.answers(1)
    exchange.socket.write(request(CREATE, { ...AS_JSON, ...CLOSING }, textOf()))
    const [refusal, success] = await exchange.ended
    expectRefusal(refusal, 413)
    expect(success?.status).toBe(201)
  },
)

test('a connection whose body was refused unread serves the next request', async () => {
  const { port } = await openTestApp()
  const requests = [
    request('POST /users', { 'Content-Type': 'text/plain' }, textOf()),
    request('POST /nowhere', AS_JSON, textOf()),
    request('PUT /users', AS_JSON, textOf()),
    request('GET /users', CLOSING),
  ]
  const answers = await sendRaw(port, Buffer.concat(requests)).ended
  expect(answers.map(({ status }) => status)).toEqual([415, 404, 405, 200])
})

function textOf(fields: Record<string, unknown> = {}): string {
  return JSON.stringify(newUserBody(fields))
}

function request(line: string, headers: Headers = {}, body: string | Buffer = ''): Buffer {
  const bytes = Buffer.from(body as string)
  const isFramed = 'Transfer-Encoding' in headers || 'Content-Length' in headers
  const head = Object.entries({
    Host: 'localhost',
    ...(bytes.length > 0 && !isFramed && { 'Content-Length': String(bytes.length) }),
    ...headers,
  })
  const lines = head.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return Buffer.concat([Buffer.from(`${line} HTTP/1.1\r\n${lines}\r\n`), bytes])
}

async function ask(port: number, line: string, headers: Headers, body: string | Buffer) {
  // The server closes if it is asked to, and the unread rest of a long body may then destroy the answer.
  const exchange = sendRaw(port, request(line, headers, body))
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  if (answer === undefined) throw new Error('no answer')
  return answer
}

function inChunks(bytes: Buffer, chunkBytes: number): Buffer {
  const parts: Buffer[] = []
  for (let start = 0; start < bytes.length; start += chunkBytes) {
    const chunk = bytes.subarray(start, start + chunkBytes)
    parts.push(Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from('\r\n'))
  }
  return Buffer.concat([...parts, Buffer.from('0\r\n\r\n')])
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
