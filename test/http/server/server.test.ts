import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import express, { type Request, type Response } from 'express'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createExpressServer } from '../../../src/http/server/express-server.ts'
import { newUserBody } from '../../support/builders.ts'
import { openTestApp } from '../../support/open-test-app.ts'
import { type RawAnswer, sendRaw } from '../../support/raw-http.ts'
import { holdWrites } from '../../support/sql.ts'
import { until, untilPasses } from '../../support/until.ts'

const LONG = 'a'.repeat(17_000)

/** Requests that the parser refuses, with the status of the answer. */
const REFUSED: readonly (readonly [name: string, bytes: string | Buffer, status: number])[] = [
  ['a garbage request line', 'garbage\r\n\r\n', 400],
  ['garbage without an end', 'garbage', 400],
  ['bytes of TLS', Buffer.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc]), 400],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 400],
  ['an unknown method', 'FROB /users HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['a method in lower case', 'get /users HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['an unknown version', 'GET /users HTTP/9.9\r\nHost: x\r\n\r\n', 400],
  ['another protocol', 'GET /users SMTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['no path', 'GET  HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['a path that does not begin with a slash', 'GET users HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['a space in the path', 'GET /users /1 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['a NUL in the path', 'GET /users\0 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
  ['a header without a colon', get('nonsense'), 400],
  ['a header name with a space', get('Some Name: x'), 400],
  ['a space before the colon', get('Name : x'), 400],
  ['an empty header name', get(': x'), 400],
  ['a header name beyond ASCII', get('N\xe4me: x'), 400],
  ['a NUL in a header', get('Name: a\0b'), 400],
  ['a control character in a header', get('Name: a\x01b'), 400],
  ['a header line that begins with a space', get(' Name: x'), 400],
  ['a lone carriage return in a header', get('Name: a\rb'), 400],
  ['a header over 16 KB', get(`Name: ${LONG}`), 431],
  ['a header name over 16 KB', get(`${LONG}: x`), 431],
  ['headers over 16 KB together', get(`${'Name: 0123456789\r\n'.repeat(1200)}End: x`), 431],
  ['a path over 16 KB', `GET /${LONG} HTTP/1.1\r\nHost: x\r\n\r\n`, 431],
  ['two different lengths', post('Content-Length: 2\r\nContent-Length: 3', '{}x'), 400],
  ['two lengths in one', post('Content-Length: 2, 2', '{}'), 400],
  ['a negative length', post('Content-Length: -2', '{}'), 400],
  ['a length with a sign', post('Content-Length: +2', '{}'), 400],
  ['a length in hexadecimal', post('Content-Length: 0x2', '{}'), 400],
  ['a length too large for a number', post(`Content-Length: ${'9'.repeat(30)}`, '{}'), 400],
  ['an empty length', post('Content-Length: ', '{}'), 400],
  [
    'a length and chunks',
    post('Content-Length: 5\r\nTransfer-Encoding: chunked', '0\r\n\r\n'),
    400,
  ],
  [
    'chunks and a length',
    post('Transfer-Encoding: chunked\r\nContent-Length: 5', '0\r\n\r\n'),
    400,
  ],
  ['a transfer coding after chunks', post('Transfer-Encoding: chunked, gzip', '0\r\n\r\n'), 400],
  ['CONNECT', 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n', 400],
]

test.each([
  ['a header over 16 KB', `HEAD / HTTP/1.1\r\nHost: x\r\nName: ${LONG}\r\n\r\n`, 431],
  ['a header without a colon', 'HEAD / HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n', 400],
])('a HEAD with %s is refused without a body', async (_, bytes, status) => {
  const { port } = await openTestApp()
  const exchange = sendRaw(port, bytes)
  const chunks: Buffer[] = []
  exchange.socket.on('data', chunk => chunks.push(chunk))
  await exchange.ended
  const [head = '', ...rest] = Buffer.concat(chunks).toString().split('\r\n\r\n')
  expect(head).toMatch(new RegExp(`^HTTP/1.1 ${status} [^]*\r\nContent-Length: [1-9]`))
  expect(rest).toEqual([''])
})

test('a refusal after a HEAD on the same connection has its body', async () => {
  const { port } = await openTestApp()
  const { socket, ended } = sendRaw(
    port,
    'HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\nnonsense\r\n\r\n',
  )
  const chunks: Buffer[] = []
  socket.on('data', chunk => chunks.push(chunk))
  await ended
  expect(Buffer.concat(chunks).toString()).toMatch(/ 404 .* 400 .*\r\n\r\n\{"message"/s)
})

test.each(REFUSED)(
  'a request with %s is refused and the connection closed',
  async (_, bytes, status) => {
    const { port, http, logLines } = await openTestApp()
    const exchange = sendRaw(port, typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
    exchange.socket.end()
    const answers = await exchange.ended
    expect(answers).toHaveLength(1)
    const [answer] = answers as [RawAnswer]
    expectRefusal(answer, status)
    expect(answer.headers.connection).toBe('close')
    const requestId = answer.headers['x-request-id']
    expect(logLines.filter(line => line.requestId === requestId)).toEqual([
      expect.objectContaining({
        level: 30,
        status,
        reason: REASONS[status],
        client: '127.0.0.1',
      }),
    ])
    expect(logLines.filter(({ level }) => Number(level) >= 40)).toEqual([])
    await http.get('/livez').expect(200)
  },
)

test('the server closes the connection of a refused request while the client keeps its side open', async () => {
  const { port } = await openTestApp()
  const [answer] = await sendRaw(port, 'garbage\r\n\r\n').ended
  expectRefusal(answer, 400)
})

test.each([
  ['HTTP/1.1 without Host', 'GET /users HTTP/1.1\r\n\r\n'],
  ['two Hosts', 'GET /users HTTP/1.1\r\nHost: x\r\nhOST: y\r\n\r\n'],
  ['a malformed Host', 'GET /users HTTP/1.1\r\nHost: a b/[\r\n\r\n'],
  ['two Hosts in HTTP/1.0', 'GET /users HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n'],
  ['HTTP/1.1 without Host at /livez', 'GET /livez HTTP/1.1\r\n\r\n'],
  [
    'HTTP/1.1 without Host and a method that no endpoint has',
    'PUT / HTTP/1.1\r\nAccept: text/html\r\n\r\n',
  ],
])('%s answers 400', async (_, bytes) => {
  const { port } = await openTestApp()
  const exchange = sendRaw(port, bytes)
  const [answer] = await exchange.answers(1)
  exchange.socket.destroy()
  expect(answer?.status).toBe(400)
  expectFormat(answer)
})

const CLOSE = 'Connection: close'

/** Unusual requests that must be served. */
const SERVED: readonly (readonly [name: string, bytes: string])[] = [
  ['HTTP/1.0 without Host', 'GET /users HTTP/1.0\r\n\r\n'],
  ['HTTP/1.0 with Host', 'GET /users HTTP/1.0\r\nHost: x\r\n\r\n'],
  ['an empty Host', `GET /users HTTP/1.1\r\nHost:\r\n${CLOSE}\r\n\r\n`],
  ['an empty line before it', `\r\n\r\n${get(CLOSE, '/users')}`],
  ['a query', get(CLOSE, '/users?')],
  ['an absolute target', get(CLOSE, 'http://example.com/users')],
  ['an absolute target with a port', get(CLOSE, 'http://example.com:8080/users')],
  ['an absolute target of IPv6', get(CLOSE, 'http://[::1]/users')],
  ['an absolute target in upper case', get(CLOSE, 'HTTP://EXAMPLE.COM/users')],
  ['an absolute target of https', get(CLOSE, 'https://example.com/users')],
  ['an absolute target with a user', get(CLOSE, 'http://me:secret@example.com/users')],
  ['an absolute target and no Host, in HTTP/1.0', 'GET http://example.com/users HTTP/1.0\r\n\r\n'],
  ['an upgrade to WebSocket', get(`Connection: Upgrade, close\r\nUpgrade: websocket`, '/users')],
  [
    'an upgrade to HTTP/2',
    get(
      'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAA',
      '/users',
    ),
  ],
  ['bytes beyond ASCII in a header', get(`Name: \xff\xe9\r\n${CLOSE}`, '/users')],
  ['a header of 15 KB', get(`Name: ${'a'.repeat(15_000)}\r\n${CLOSE}`, '/users')],
]

test.each(SERVED)('a request with %s is served', async (_, bytes) => {
  const { port } = await openTestApp()
  const answers = await sendRaw(port, Buffer.from(bytes, 'latin1')).ended
  expect(answers).toHaveLength(1)
  expect(answers[0]).toMatchObject({ status: 200, body: '[]' })
  expectFormat(answers[0])
})

test('the last of thousands of headers counts as the first', async () => {
  const { port } = await openTestApp()
  const headers = `${'A: b\r\n'.repeat(3000)}X-Request-Id: last\r\n${CLOSE}`
  const [answer] = await sendRaw(port, get(headers, '/users')).ended
  expect(answer).toMatchObject({ status: 200, headers: { 'x-request-id': 'last' } })
})

test('an absolute target without a path is served as /, also with a query', async () => {
  const { port } = await openTestApp()
  for (const target of ['http://example.com', 'http://example.com?x=1', 'http://example.com/']) {
    const [answer] = await sendRaw(port, get(CLOSE, target)).ended
    expect(answer?.status).toBe(200)
    expect(JSON.parse(answer?.body ?? '')).toMatchObject({ users: '/users' })
  }
})

test('a refused absolute target is named by its path', async () => {
  const { port } = await openTestApp()
  const headers = `Accept: application/problem+json\r\n${CLOSE}`
  const [answer] = await sendRaw(port, get(headers, 'http://example.com/users/999?x=1')).ended
  expect(answer?.status).toBe(404)
  expect(JSON.parse(answer?.body ?? '')).toMatchObject({ instance: '/users/999' })
})

/** Requests that a server may refuse or serve, but must answer. */
const ODD: readonly (readonly [name: string, bytes: string])[] = [
  ['no version', 'GET /users\r\n\r\n'],
  ['an unknown transfer coding', post('Transfer-Encoding: xchunked', '0\r\n\r\n')],
  ['bare line feeds', `GET /users HTTP/1.1\nHost: x\n${CLOSE}\n\n`],
  ['a bare line feed after a header', `GET /users HTTP/1.1\r\nHost: x\n${CLOSE}\r\n\r\n`],
  ['a folded header', get(`Name: a\r\n b\r\n${CLOSE}`, '/users')],
  ['a folded header with a tab', get(`Name: a\r\n\tb\r\n${CLOSE}`, '/users')],
  ['an absolute target with a broken host', get(CLOSE, 'http://[/users')],
  ['an absolute target with an unclosed host', get(CLOSE, 'http://[::1/users')],
  ['an absolute target without a host', get(CLOSE, 'http:///users')],
  ['an absolute target with a broken port', get(CLOSE, 'http://example.com:99999999/users')],
  ['an absolute target with a bad percent', get(CLOSE, 'http://exa%zzmple.com/users')],
  ['an absolute target with a backslash', get(CLOSE, 'http:\\\\example.com\\users')],
  ['an absolute target of another scheme', get(CLOSE, 'ftp://example.com/users')],
  ['an absolute target with a fragment', get(CLOSE, 'http://example.com#/users')],
  ['a target of several slashes', get(CLOSE, '///users')],
  ['a target like another host', get(CLOSE, '//[/users')],
  ['a target with a fragment', get(CLOSE, '/users#x')],
  ['a target with backslashes', get(CLOSE, '/\\users')],
  ['a target of dots', get(CLOSE, '/../../users/./1')],
  ['bytes beyond ASCII in the path', get(CLOSE, '/us\xe9rs')],
  ['UTF-8 in the path', get(CLOSE, '/users/\xc3\xa9')],
  ['bytes beyond ASCII in the query', get(CLOSE, '/users/1?n=\xff')],
  ['OPTIONS *', `OPTIONS * HTTP/1.1\r\nHost: x\r\n${CLOSE}\r\n\r\n`],
  ['GET *', get(CLOSE, '*')],
  ['two Hosts', `GET /users HTTP/1.1\r\nHost: x\r\nHost: y\r\n${CLOSE}\r\n\r\n`],
  ['a broken Host', `GET /users HTTP/1.1\r\nHost: a b/[\r\n${CLOSE}\r\n\r\n`],
  ['the same length twice', post('Content-Length: 2\r\nContent-Length: 2', '{}')],
  [
    'an empty path in OPTIONS',
    `OPTIONS http://example.com HTTP/1.1\r\nHost: x\r\n${CLOSE}\r\n\r\n`,
  ],
]

test.each(ODD)('a request with %s is answered', async (_, bytes) => {
  const { port, logLines } = await openTestApp()
  const answers = await sendRaw(port, Buffer.from(bytes, 'latin1')).ended
  expect(answers).toHaveLength(1)
  const [answer] = answers as [RawAnswer]
  expect(answer.status).toBeGreaterThanOrEqual(200)
  expect(answer.status).toBeLessThan(500)
  expectFormat(answer)
  expect(logLines.filter(({ level }) => Number(level) >= 40)).toEqual([])
})

const URI_PATH = /^(?:[\w.~!$&'()*+,;=:@/-]|%[\dA-Fa-f]{2})+$/

test.each(['/users/"<>', '/users/\\^`{|}', '/%5B[]%5D'])(
  'the instance of a problem names the target %s as a URI',
  async target => {
    const { port } = await openTestApp()
    const headers = `Accept: application/problem+json\r\n${CLOSE}`
    const [answer] = await sendRaw(port, get(headers, target)).ended
    expect(answer?.status).toBe(404)
    const { instance } = JSON.parse(answer?.body ?? '')
    expect(instance).toMatch(URI_PATH)
    expect(decodeURIComponent(instance)).toBe(decodeURIComponent(target))
  },
)

const CHUNKED_POST = 'Transfer-Encoding: chunked\r\nContent-Type: application/json'

test.each([
  ['a bad chunk size', `${CHUNKED_POST}`, '2\r\n{"\r\nzz\r\n', 400],
  ['a chunk longer than it says', `${CHUNKED_POST}`, '2\r\n{"user"\r\n0\r\n\r\n', 400],
  ['a chunk size too large for a number', `${CHUNKED_POST}`, `${'f'.repeat(17)}\r\n`, 400],
  ['a negative chunk size', `${CHUNKED_POST}`, '-1\r\n', 400],
  ['a bad trailer', `${CHUNKED_POST}`, '2\r\n{}\r\n0\r\nno colon\r\n\r\n', 400],
  ['a chunk extension over 16 KB', `${CHUNKED_POST}`, `2;x=${LONG}\r\n{}\r\n0\r\n\r\n`, 413],
])(
  'POST /users with %s in its body answers in the format asked for',
  async (_, headers, body, status) => {
    const { port, http, logLines } = await openTestApp()
    for (const accept of ['application/json', 'application/problem+json']) {
      const answers = await sendRaw(port, post(`${headers}\r\nAccept: ${accept}`, body)).ended
      expect(answers).toHaveLength(1)
      const [answer] = answers as [RawAnswer]
      expect(answer.status).toBe(status)
      expectFormat(answer, accept)
      const requestId = answer.headers['x-request-id']
      expect(logLines.filter(line => line.requestId === requestId)).toEqual([
        // A busy machine may refuse it before its turn, when it has no route yet.
        expect.objectContaining({ msg: expect.stringMatching(/^request(?: refused)?$/), status }),
      ])
    }
    expect((await http.get('/users').expect(200)).body).toEqual([])
  },
)

test('POST /users answers 400 to a client that ends its side within the body', async () => {
  const { port, http } = await openTestApp()
  const exchange = sendRaw(
    port,
    post('Content-Length: 50\r\nContent-Type: application/json', '{"us'),
  )
  exchange.socket.end()
  const answers = await exchange.ended
  expect(answers).toHaveLength(1)
  expect(answers[0]?.status).toBe(400)
  expectFormat(answers[0])
  expect((await http.get('/users').expect(200)).body).toEqual([])
})

test('bytes after chunks in HTTP/1.0, which has no chunks, are not answered', async () => {
  const { port } = await openTestApp()
  const head =
    'POST /nowhere HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n'
  const answers = await sendRaw(port, `${head}0\r\n\r\n${get(CLOSE, '/users')}`).ended
  expect(answers.map(({ status }) => status)).toEqual([404])
})

test('a response to a request to upgrade closes the connection', async () => {
  const { port } = await openTestApp()
  const wish = get('Connection: Upgrade\r\nUpgrade: h2c', '/users')
  const answers = await sendRaw(port, wish + get(CLOSE, '/livez')).ended
  expect(answers).toHaveLength(1)
  expect(answers[0]).toMatchObject({ status: 200, headers: { connection: 'close' } })
})

test('pipelined requests are answered in their order, however long each takes', async () => {
  const { port } = await openTestApp()
  const slow = JSON.stringify(newUserBody({ password: 'correct horse' }))
  const head = `X-Request-Id: slow\r\nContent-Type: application/json`
  const requests = [
    post(`${head}\r\nContent-Length: ${slow.length}`, slow),
    get('X-Request-Id: second', '/nowhere'),
    get('X-Request-Id: third', '/livez'),
    get(`X-Request-Id: fourth\r\n${CLOSE}`, '/'),
  ]
  const answers = await sendRaw(port, requests.join('')).ended
  expect(answers.map(({ headers, status }) => [headers['x-request-id'], status])).toEqual([
    ['slow', 201],
    ['second', 404],
    ['third', 200],
    ['fourth', 200],
  ])
})

test.each([
  ['garbage', 'garbage\r\n\r\n', 400],
  ['a bad header', get('nonsense'), 400],
  ['a header over 16 KB', get(`Name: ${LONG}`), 431],
  ['CONNECT', 'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n', 400],
])('%s after a good POST is refused only after its 201', async (_, bytes, status) => {
  const { port, http } = await openTestApp()
  const slow = JSON.stringify(newUserBody({ password: 'correct horse' }))
  const first = post(`Content-Type: application/json\r\nContent-Length: ${slow.length}`, slow)
  const answers = await sendRaw(port, first + bytes).ended
  expect(answers.map(answer => answer.status)).toEqual([201, status])
  expectRefusal(answers[1], status)
  expect((await http.get('/users').expect(200)).body).toHaveLength(1)
})

test('garbage on a connection that has been served is refused', async () => {
  const { port } = await openTestApp()
  const exchange = sendRaw(port, get('Accept: */*', '/users'))
  await exchange.answers(1)
  exchange.socket.write('garbage\r\n\r\n')
  const answers = await exchange.ended
  expect(answers.map(({ status }) => status)).toEqual([200, 400])
  expectRefusal(answers[1], 400)
})

test.each(['destroy', 'resetAndDestroy'] as const)(
  'a client that disconnects within its body, by %s, does not stop the service',
  async disconnect => {
    const { port, http, logLines } = await openTestApp()
    const headers = 'Content-Type: application/json\r\nContent-Length: 50\r\nExpect: 100-continue'
    const exchange = sendRaw(port, post(`${headers}\r\nX-Request-Id: lost`, '{"user"'))
    // 100 Continue: the service waits for the body.
    await exchange.answers(1)
    exchange.socket[disconnect]()
    await exchange.ended
    const line = await until(() => logLines.find(({ requestId }) => requestId === 'lost'))
    expect(line).toMatchObject({ msg: 'request', method: 'POST', route: '/users' })
    expect((await http.get('/users').expect(200)).body).toEqual([])
    expect(logLines.filter(({ level }) => Number(level) >= 40)).toEqual([])
    expect(logLines.map(({ msg }) => msg)).not.toContain('request failed')
  },
)

test.each([
  ['resets', ''],
  ['resets', 'x'.repeat(300_000)],
  ['ends its side', 'x'.repeat(300_000)],
] as const)(
  'a client that asks for a tunnel and %s does not stop the service, and leaves no connection',
  async (leaves, bytes) => {
    const { port, http, logLines, stop } = await openTestApp()
    const exchange = sendRaw(port, `CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n${bytes}`)
    if (leaves === 'resets') {
      await once(exchange.socket, 'connect')
      exchange.socket.resetAndDestroy()
    } else {
      exchange.socket.end()
      expectRefusal((await exchange.ended)[0], 400)
    }
    await exchange.ended
    await http.get('/livez').expect(200)
    expect(logLines.filter(({ level }) => Number(level) >= 40)).toEqual([])
    expect(await stop()).toBe(true)
  },
)

test('POST /users of a client that disconnects before its answer creates the user, without an error', async () => {
  const { port, http, databaseUrl, logLines } = await openTestApp()
  const body = JSON.stringify(newUserBody())
  const headers = `Content-Type: application/json\r\nContent-Length: ${body.length}`
  // There can be no answer yet.
  const held = await holdWrites(databaseUrl)
  const begun = post(`${headers}\r\nExpect: 100-continue\r\nX-Request-Id: gone`, body)
  const exchange = sendRaw(port, begun)
  await exchange.answers(1)
  exchange.socket.resetAndDestroy()
  const line = await until(() => logLines.find(({ requestId }) => requestId === 'gone'))
  expect(line).toMatchObject({ msg: 'request', method: 'POST', route: '/users', aborted: true })
  await held.release()
  await untilPasses(async () => expect((await http.get('/users')).body).toHaveLength(1))
  expect(logLines.filter(({ level }) => Number(level) >= 40)).toEqual([])
})

test('a client that connects and disconnects is not an error', async () => {
  const { port, http, logLines } = await openTestApp()
  const exchange = sendRaw(port, '')
  await once(exchange.socket, 'connect')
  exchange.socket.end()
  expect(await exchange.ended).toEqual([])
  await http.get('/livez').expect(200)
  expect(logLines.filter(({ level }) => Number(level) >= 40)).toEqual([])
})

test('createExpressServer: requests and responses are created with the prototypes that Express gives them', async () => {
  const app = express()
  app.get('/', (request, response) => {
    response.json({ isExpress: request.path === '/' && request.get('host') !== undefined })
  })
  const server = createExpressServer(app, {})
  const { request: requestPrototype, response: responsePrototype } = app as unknown as {
    request: Request
    response: Response
  }
  const born: object[] = []
  const prototypesAtBirth: unknown[] = []
  server.prependListener('request', (request, response) => {
    born.push(request, response)
    prototypesAtBirth.push(Object.getPrototypeOf(request), Object.getPrototypeOf(response))
  })
  const changed: unknown[] = []
  const setPrototypeOf = Object.setPrototypeOf
  const spy = vi.spyOn(Object, 'setPrototypeOf').mockImplementation((target, prototype) => {
    if (Object.getPrototypeOf(target) !== prototype) changed.push(target)
    return setPrototypeOf(target, prototype)
  })
  onTestFinished(() => spy.mockRestore())
  const url = await listen(server)
  const answer = await fetch(url)
  expect(await answer.json()).toEqual({ isExpress: true })
  expect(born).toHaveLength(2)
  expect(prototypesAtBirth[0]).toBe(requestPrototype)
  expect(prototypesAtBirth[1]).toBe(responsePrototype)
  // Express still sets them, which changes nothing.
  const set = spy.mock.calls.map(([target]) => target)
  for (const one of born) {
    expect(set.includes(one)).toBe(true)
    expect(changed.includes(one)).toBe(false)
  }
})

test('createExpressServer: each application keeps its own prototypes, and Express its own', async () => {
  const untouched = [express.request, express.response].map(one => Object.getPrototypeOf(one))
  const first = express()
  const second = express()
  const servers = [createExpressServer(first, {}), createExpressServer(second, {})]
  const name = (text: string) => (_: Request, response: Response) => void response.send(text)
  first.get('/', name('first'))
  second.get('/', name('second'))
  const texts = servers.map(async server => (await fetch(await listen(server))).text())
  expect(await Promise.all(texts)).toEqual(['first', 'second'])
  expect(Object.is(first.request, second.request)).toBe(false)
  expect([express.request, express.response].map(one => Object.getPrototypeOf(one))).toEqual(
    untouched,
  )
})

function get(headers: string, target = '/'): string {
  return `GET ${target} HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n`
}

function post(headers: string, body: string): string {
  return `POST /users HTTP/1.1\r\nHost: localhost\r\n${headers}\r\n\r\n${body}`
}

async function listen(server: Server): Promise<string> {
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** The reasons of requests that Node's parser refuses. */
const REASONS: Readonly<Record<number, string>> = {
  400: 'request_malformed',
  408: 'request_timeout',
  413: 'body_too_large',
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
