import { once } from 'node:events'
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { openTestApp, type TestApp } from '../support/open-test-app.ts'
import {
  AS_JSON,
  type RawAnswer,
  type RawExchange,
  requestBytes,
  sendRaw,
} from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'
import { holdWrites } from '../support/sql.ts'
import { until, untilPasses } from '../support/until.ts'

const MALFORMED = 'request_malformed'
const SCHEME = 'scheme_not_allowed'
const CODING = 'transfer_coding_unsupported'

const LONG = 'a'.repeat(17_000)

const CLOSE = 'Connection: close'

const IN_CHUNKS = 'Transfer-Encoding: chunked'

function get(headers: string, target = '/'): string {
  return `GET ${target} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n`
}

function post(headers: string, body: string): string {
  return `POST /users HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n${body}`
}

const app = shareTestApp()

/** All answers until the service closes the connection. */
function answersTo(bytes: string): Promise<readonly RawAnswer[]> {
  return sendRaw(app.port, Buffer.from(bytes, 'latin1')).ended
}

const linesOf = (id = '') => app.logLines.filter(({ requestId }) => requestId === id)

function expectNoWarning({ logLines }: TestApp = app): void {
  expect(logLines.filter(({ level }) => Number(level) >= 40)).toEqual([])
}

async function expectNoUsers({ http }: TestApp = app): Promise<void> {
  expect((await http.get('/users').expect(200)).body).toEqual([])
}

/** Requests that the parser refuses, with the status of the answer. */
const REFUSED: readonly (readonly [name: string, bytes: string, status: number])[] = [
  ['a garbage request line', 'garbage\r\n\r\n', 400],
  ['garbage without an end', 'garbage', 400],
  ['bytes of TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc', 400],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['an unknown method', 'FROB /users HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['an unknown version', 'GET /users HTTP/9.9\r\nHost: x\r\n\r\n', 400],
  ['a path that does not begin with a slash', 'GET users HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['a NUL in the path', 'GET /users\0 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['a header without a colon', get('nonsense'), 400],
  ['a space before the colon', get('Name : x'), 400],
  ['a control character in a header', get('Name: a\x01b'), 400],
  ['a lone carriage return in a header', get('Name: a\rb'), 400],
  ['a header over 16 KB', get(`Name: ${LONG}`), 431],
  ['headers over 16 KB together', get(`${'Name: 0123456789\r\n'.repeat(1200)}End: x`), 431],
  ['a path over 16 KB', `GET /${LONG} HTTP/1.1\r\nHost: x\r\n\r\n`, 414],
  ['a path over 16 KB without an end', `GET /${LONG}`, 414],
  ['a query over 16 KB', `GET /users?q=${LONG} HTTP/1.1\r\nHost: x\r\n\r\n`, 414],
  ['a header over 16 KB without an end', `GET / HTTP/1.1\r\nHost: x\r\nCookie: ${LONG}`, 431],
  ['two different lengths', post('Content-Length: 2\r\nContent-Length: 3', '{}x'), 400],
  ['two lengths in one', post('Content-Length: 2, 2', '{}'), 400],
  ['a negative length', post('Content-Length: -2', '{}'), 400],
  ['a length too large for a number', post(`Content-Length: ${'9'.repeat(30)}`, '{}'), 400],
  ['a length and chunks', post(`Content-Length: 5\r\n${IN_CHUNKS}`, '0\r\n\r\n'), 400],
  ['chunks and a length', post(`${IN_CHUNKS}\r\nContent-Length: 5`, '0\r\n\r\n'), 400],
  ['a transfer coding after chunks', post(`${IN_CHUNKS}, gzip`, '0\r\n\r\n'), 400],
  ['CONNECT', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n', 400],
]

test.each(REFUSED)(
  'a request with %s is refused and the connection closed',
  async (_, bytes, status) => {
    const exchange = sendRaw(app.port, Buffer.from(bytes, 'latin1'))
    // Some of them wait for more.
    exchange.socket.end()
    const answers = await exchange.ended
    expect(answers).toHaveLength(1)
    const [answer] = answers as [RawAnswer]
    expectRefusal(answer, status)
    expect(answer.headers.connection).toBe('close')
    expect(linesOf(answer.headers['x-request-id'])).toEqual([
      expect.objectContaining({ level: 30, status, reason: REASONS[status], client: '127.0.0.1' }),
    ])
    expectNoWarning()
    await app.http.get('/livez').expect(200)
  },
)

test('a HEAD is refused without a body, but a refusal after it has one', async () => {
  const refused = await sendRaw(app.port, 'HEAD / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n').text
  expect(refused).toMatch(/^HTTP\/1.1 400 .*\r\nContent-Length: [1-9].*\r\n\r\n$/s)
  const two = 'HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n'
  const received = await sendRaw(app.port, two).text
  expect(received).toMatch(/ 404 .* 400 .*\r\n\r\n\{"message"/s)
})

const FTP = get(CLOSE, 'ftp://example.com/users')

test.each([
  ['no Host in HTTP/1.1', 'GET /users HTTP/1.1\r\n\r\n', 400, MALFORMED],
  ['two Hosts', 'GET /users HTTP/1.1\r\nHost: x\r\nhOST: y\r\n\r\n', 400, MALFORMED],
  ['a malformed Host', 'GET /users HTTP/1.1\r\nHost: a b/[\r\n\r\n', 400, MALFORMED],
  ['a port of 65536', 'GET /users HTTP/1.1\r\nHost: x:65536\r\n\r\n', 400, MALFORMED],
  ['a port of 30 digits', get(CLOSE, `http://[::1]:${'9'.repeat(30)}/users`), 400, MALFORMED],
  ['two Hosts in HTTP/1.0', 'GET /users HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n', 400, MALFORMED],
  ['an absolute target without a host', get(CLOSE, 'http:///users'), 400, MALFORMED],
  ['an absolute target with a user and no host', get(CLOSE, 'http://me@/users'), 400, MALFORMED],
  ['an absolute target of https', get(CLOSE, 'https://example.com/users'), 421, SCHEME],
  ['an absolute target of ftp', FTP, 421, SCHEME],
  ['an unknown transfer coding', post('Transfer-Encoding: foo, chunked', '0\r\n\r\n'), 501, CODING],
  ['a known coding that is not offered', post('Transfer-Encoding: gzip, chunked', ''), 501, CODING],
])('a request with %s is refused', async (_, bytes, status, reason) => {
  const exchange = sendRaw(app.port, bytes)
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  expect([answer?.status, JSON.parse(answer?.body ?? '').reason]).toEqual([status, reason])
  expectFormat(answer)
})

test('an absolute target of https is served where a trusted proxy says that it ended TLS', async () => {
  const own = await openTestApp({ env: { TRUST_PROXY: 'loopback' } })
  const bytes = get(`X-Forwarded-Proto: https\r\n${CLOSE}`, 'https://example.com/users')
  const [answer] = await sendRaw(own.port, bytes).ended
  expect(answer).toMatchObject({ status: 200, body: '[]' })
})

test('OPTIONS * is answered for the whole service', async () => {
  const [answer] = await answersTo(`OPTIONS * HTTP/1.1\r\nHost: x\r\n${CLOSE}\r\n\r\n`)
  expect(answer).toMatchObject({ status: 204, body: '' })
  const [other] = await answersTo(`GET * HTTP/1.1\r\nHost: x\r\n${CLOSE}\r\n\r\n`)
  expect(other?.status).toBe(404)
})

/** Unusual requests that must be served. */
const SERVED: readonly (readonly [name: string, bytes: string])[] = [
  ['HTTP/1.0 without Host', 'GET /users HTTP/1.0\r\n\r\n'],
  ['the last port', `GET /users HTTP/1.1\r\nHost: x:65535\r\n${CLOSE}\r\n\r\n`],
  ['a Host with an empty port', `GET /users HTTP/1.1\r\nHost: x:\r\n${CLOSE}\r\n\r\n`],
  ['an empty Host', `GET /users HTTP/1.1\r\nHost:\r\n${CLOSE}\r\n\r\n`],
  ['an empty line before it', `\r\n\r\n${get(CLOSE, '/users')}`],
  ['an absolute target', get(CLOSE, 'http://example.com:8080/users?')],
  ['an absolute target of IPv6', get(CLOSE, 'http://[::1]/users')],
  ['an absolute target in upper case', get(CLOSE, 'HTTP://EXAMPLE.COM/users')],
  ['an absolute target with a user', get(CLOSE, 'http://me:secret@example.com/users')],
  ['an absolute target and no Host, in HTTP/1.0', 'GET http://example.com/users HTTP/1.0\r\n\r\n'],
  ['an upgrade to WebSocket', get(`Connection: Upgrade, close\r\nUpgrade: websocket`, '/users')],
  ['bytes beyond ASCII in a header', get(`Name: \xff\xe9\r\n${CLOSE}`, '/users')],
  ['a header of 15 KB', get(`Name: ${'a'.repeat(15_000)}\r\n${CLOSE}`, '/users')],
]

test.each(SERVED)('a request with %s is served', async (_, bytes) => {
  const answers = await answersTo(bytes)
  expect(answers).toHaveLength(1)
  expect(answers[0]).toMatchObject({ status: 200, body: '[]' })
  expectFormat(answers[0])
})

test('the last of thousands of headers counts as the first', async () => {
  const headers = `${'A: b\r\n'.repeat(3000)}X-Request-Id: last\r\n${CLOSE}`
  const [answer] = await answersTo(get(headers, '/users'))
  expect(answer).toMatchObject({ status: 200, headers: { 'x-request-id': 'last' } })
})

test.each(['http://example.com', 'http://example.com?x=1'])(
  'an absolute target without a path is served as /: %s',
  async target => {
    const [answer] = await answersTo(get(CLOSE, target))
    expect(answer?.status).toBe(200)
    expect(JSON.parse(answer?.body ?? '')).toMatchObject({ users: '/users' })
  },
)

/** Requests that a server may refuse or serve, but must answer. */
const ODD: readonly (readonly [name: string, bytes: string])[] = [
  ['no version', 'GET /users\r\n\r\n'],
  ['bare line feeds', `GET /users HTTP/1.1\nHost: x\n${CLOSE}\n\n`],
  ['a folded header', get(`Name: a\r\n b\r\n${CLOSE}`, '/users')],
  ['an absolute target with a broken host', get(CLOSE, 'http://[/users')],
  ['an absolute target with a broken port', get(CLOSE, 'http://example.com:99999999/users')],
  ['an absolute target with a bad percent', get(CLOSE, 'http://exa%zzmple.com/users')],
  ['an absolute target of another scheme', get(CLOSE, 'ftp://example.com#/users')],
  ['a target like another host', get(CLOSE, '//[/users')],
  ['a target with backslashes', get(CLOSE, '/\\users')],
  ['a target of dots', get(CLOSE, '/../../users/./1')],
  ['bytes beyond ASCII in path and query', get(CLOSE, '/us\xe9rs?n=\xff')],
  ['the same length twice', post('Content-Length: 2\r\nContent-Length: 2', '{}')],
]

test.each(ODD)('a request with %s is answered', async (_, bytes) => {
  const answers = await answersTo(bytes)
  expect(answers).toHaveLength(1)
  const [answer] = answers as [RawAnswer]
  expect(answer.status).toBeGreaterThanOrEqual(200)
  expect(answer.status).toBeLessThan(500)
  expectFormat(answer)
  expectNoWarning()
})

test.each([
  ['a bad chunk size', '2\r\n{"\r\nzz\r\n', 400],
  ['a chunk size too large for a number', `${'f'.repeat(17)}\r\n`, 400],
  ['a bad trailer', '2\r\n{}\r\n0\r\nno colon\r\n\r\n', 400],
  ['a chunk extension over 16 KB', `2;x=${LONG}\r\n{}\r\n0\r\n\r\n`, 413],
])('POST /users with %s in its body answers in the format asked for', async (_, body, status) => {
  for (const accept of ['application/json', 'application/problem+json']) {
    const headers = `${IN_CHUNKS}\r\nContent-Type: application/json`
    const answers = await answersTo(post(`${headers}\r\nAccept: ${accept}`, body))
    expect(answers).toHaveLength(1)
    const [answer] = answers as [RawAnswer]
    expect(answer.status).toBe(status)
    expectFormat(answer, accept)
    expect(linesOf(answer.headers['x-request-id'])).toEqual([
      // A busy machine may refuse it before its turn, when it has no route yet.
      expect.objectContaining({ msg: expect.stringMatching(/^request(?: refused)?$/), status }),
    ])
  }
  await expectNoUsers()
})

const OFFER = 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA'

/** Each packet once the service, in the same thread, has read the one before it. */
async function sendApart({ socket }: RawExchange, packets: readonly string[]) {
  for (const packet of packets) {
    socket.write(packet)
    await sleep(20)
    for (let turn = 0; turn < 5; turn++) await nextTurn()
  }
}

const offer = (body: string) =>
  post(`${OFFER}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}`, body)

test.each([
  ['of a GET', [get(OFFER, '/users')]],
  ['to WebSocket', [get('Connection: Upgrade\r\nUpgrade: websocket', '/users')]],
  ['of a POST', [offer('{"user":{}}')]],
  ['of a POST whose body comes later', [offer('{"user":{}}').slice(0, -11), '{"user', '":{}}']],
  ['of a POST whose body comes in part', [offer('{"user":{}}').slice(0, -4), '":{}']],
])('an offer to upgrade %s keeps its connection if nothing came with it', async (_, packets) => {
  const exchange = sendRaw(app.port, '')
  for (const count of [1, 2, 3]) {
    await sendApart(exchange, packets)
    const answers = await exchange.answers(count)
    expect(answers.at(-1)?.headers.connection).toBe('keep-alive')
  }
  exchange.socket.write(get(CLOSE, '/livez'))
  expect((await exchange.ended).map(({ status }) => status).at(-1)).toBe(200)
})

const HIDDEN = get(CLOSE, '/livez')

const BODY = '{"user":{"name":""}}'

/** Packets with something after an offer, which other servers may take for a request. */
const SMUGGLING: readonly (readonly [name: string, packets: readonly string[]])[] = [
  ['a request', [get(OFFER, '/users') + HIDDEN]],
  ['the same request', [get(OFFER, '/users').repeat(2)]],
  ['a part of a request', [get(OFFER, '/users') + HIDDEN.slice(0, 20), HIDDEN.slice(20)]],
  ['one byte', [`${get(OFFER, '/users')}\n`]],
  ['an end of a head', [`${get(OFFER, '/users')}\r\n\r\n`]],
  ['a request after its body', [offer(BODY) + HIDDEN]],
  [
    'a request after its late body',
    [offer(BODY).slice(0, -BODY.length), BODY + HIDDEN.slice(0, 9), HIDDEN.slice(9)],
  ],
  ['a request, in a head of two packets', [get(OFFER, '/users').slice(0, -1), `\n${HIDDEN}`]],
  ['its head in two packets', [get(OFFER, '/users').slice(0, 30), get(OFFER, '/users').slice(30)]],
  [
    'a request, without blanks in its head',
    [get(OFFER, '/users').replaceAll(': ', ':') + HIDDEN.slice(0, 4), HIDDEN.slice(4)],
  ],
  ['a request, after line feeds', [get(OFFER, '/users').replaceAll('\r', '') + HIDDEN, HIDDEN]],
  [
    'a request after chunks',
    [
      post(
        `${OFFER}\r\n${IN_CHUNKS}\r\nContent-Type: application/json`,
        `2\r\n{}\r\n0\r\n\r\n${HIDDEN}`,
      ),
    ],
  ],
  ['a body of a GET', [`${get(`${OFFER}\r\nContent-Length: 4`, '/users')}GET ${HIDDEN}`]],
]

test.each(SMUGGLING)('after an offer to upgrade, %s is no request', async (_, packets) => {
  const exchange = sendRaw(app.port, '')
  await sendApart(exchange, packets)
  const answers = await exchange.ended
  expect(answers).toHaveLength(1)
  expect(answers[0]?.headers.connection).toBe('close')
})

test('a request to upgrade whose client ends its side within the body is refused at once', async () => {
  const wish = { ...AS_JSON, Connection: 'Upgrade', Upgrade: 'x', 'Content-Length': '10' }
  const exchange = sendRaw(app.port, requestBytes('POST /users', wish, '{"u'))
  exchange.socket.end()
  expect((await exchange.ended)[0]?.status).toBe(400)
})

const WAITING = { ...AS_JSON, 'Content-Length': '50', Expect: '100-continue' }

test.each(['destroy', 'resetAndDestroy'] as const)(
  'a client that disconnects within its body, by %s, does not stop the service',
  async disconnect => {
    const headers = { ...WAITING, 'X-Request-Id': disconnect }
    const exchange = sendRaw(app.port, requestBytes('POST /users', headers))
    exchange.socket.write('{"user"')
    // 100 Continue: the service waits for the body.
    await exchange.answers(1)
    // A busy service may not have begun with the request. It has once a later one is answered.
    await expectNoUsers()
    exchange.socket[disconnect]()
    const [line] = await until(() => linesOf(disconnect).length > 0 && linesOf(disconnect))
    expect(line).toMatchObject({ msg: 'request', method: 'POST', route: '/users' })
    // After an end in order there was an answer, which the system took.
    if (disconnect === 'resetAndDestroy') expect(line?.aborted).toBe(true)
    await expectNoUsers()
    expectNoWarning()
    expect(linesOf(disconnect)).toHaveLength(1)
  },
)

test.each([
  ['resets', ''],
  ['resets', 'x'.repeat(300_000)],
  ['ends its side', 'x'.repeat(300_000)],
] as const)(
  'a client that asks for a tunnel and %s does not stop the service, and leaves no connection',
  async (leaves, bytes) => {
    const own = await openTestApp()
    const exchange = sendRaw(own.port, `CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n${bytes}`)
    if (leaves === 'resets') {
      await once(exchange.socket, 'connect')
      exchange.socket.resetAndDestroy()
    } else {
      exchange.socket.end()
      expectRefusal((await exchange.ended)[0], 400)
    }
    await exchange.ended
    await own.http.get('/livez').expect(200)
    expectNoWarning(own)
    expect(await own.stop()).toBe(true)
  },
)

test('POST /users of a client that disconnects before its answer creates the user, without an error', async () => {
  const own = await openTestApp()
  const body = JSON.stringify(newUserBody())
  // There can be no answer yet.
  const held = await holdWrites(own.databaseUrl)
  const headers = { ...WAITING, 'Content-Length': `${body.length}`, 'X-Request-Id': 'gone' }
  const exchange = sendRaw(own.port, requestBytes('POST /users', headers, body))
  await exchange.answers(1)
  exchange.socket.resetAndDestroy()
  const line = await until(() => own.logLines.find(({ requestId }) => requestId === 'gone'))
  expect(line).toMatchObject({ msg: 'request', method: 'POST', route: '/users', aborted: true })
  await held.release()
  await untilPasses(async () => expect((await own.http.get('/users')).body).toHaveLength(1))
  expectNoWarning(own)
})

/** The reasons of requests that Node's parser refuses. */
const REASONS: Readonly<Record<number, string>> = {
  400: 'request_malformed',
  408: 'request_timeout',
  413: 'body_too_large',
  414: 'target_too_long',
  431: 'headers_too_large',
}

function expectRefusal(answer: RawAnswer | undefined, status: number): void {
  expect(answer?.status).toBe(status)
  expectFormat(answer)
  expect(JSON.parse(answer?.body ?? '')).toEqual({
    message: expect.stringMatching(/\S/),
    resource: 'Request',
    code: status,
    status: false,
    reason: REASONS[status],
  })
}

/** Expects one of the service's own answers, complete; `sendRaw` has cut the body to its length. */
function expectFormat(answer: RawAnswer | undefined, type = 'application/json'): void {
  const { status = 0, headers = {}, body = '' } = answer ?? {}
  expect(headers).toMatchObject({
    'x-request-id': expect.stringMatching(/^[\w.-]{1,128}$/),
    'x-content-type-options': 'nosniff',
    vary: 'Accept',
    date: expect.stringContaining('GMT'),
  })
  if (status === 204) return
  expect(headers['content-type']).toContain(type)
  expect(headers['content-length']).toBe(String(Buffer.byteLength(body)))
  const value = JSON.parse(body)
  if (status >= 400) {
    expect(headers['cache-control']).toBe('no-store')
    expect(value).toMatchObject(
      type === 'application/json'
        ? { code: status, status: false, reason: expect.stringMatching(/^[a-z_]+$/) }
        : { status, type: 'about:blank', reason: expect.stringMatching(/^[a-z_]+$/) },
    )
  }
}

test('a stream that breaks off because its request turns out malformed does not look whole to HTTP/1.0', async () => {
  const headers = `Accept: text/event-stream\r\n${IN_CHUNKS}`
  const { socket } = sendRaw(app.port, `GET /users/changes HTTP/1.0\r\n${headers}\r\n\r\n`)
  await once(socket, 'data')
  const broken = once(socket, 'error')
  socket.write('nonsense\r\n')
  expect(await Promise.race([broken, once(socket, 'end')])).toMatchObject([{ code: 'ECONNRESET' }])
})
