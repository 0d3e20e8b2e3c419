import { STATUS_CODES } from 'node:http'
import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { inForm, report, SEED } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { linesOf, type SpawnedService, spawnService } from '../support/spawn-service.ts'
import {
  DOMAIN,
  FORBIDDEN,
  HIDDEN_ID,
  type OddOptions,
  type OddRequest,
  oddRequests,
  SECRET,
  shown,
} from './odd-requests.ts'

/** The most requests in flight at a time. */
const AT_ONCE = 40

/** In each, new users are created, because requests delete them. */
const ROUNDS = inForm({ short: 4, long: 250 })

/** Far longer than any response takes on a busy machine. */
const HANG_MS = 100_000

/** A valid request that follows each of them. */
const SANE_ID = 'sane-request'

const SANE = `GET /livez HTTP/1.1\r\nHost: x\r\nX-Request-Id: ${SANE_ID}\r\nConnection: close\r\n\r\n`

test('every request, however odd, gets a response that the contract allows, in time', async () => {
  const env = { LOG_LEVEL: 'trace', CORS_ORIGINS: 'https://example.com' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  const statuses: Record<string, number> = {}
  const requestIds = new Set<string>()
  const check = async (request: OddRequest) => {
    for (const { status, headers } of await soundAnswers(service.port, request)) {
      statuses[status] = (statuses[status] ?? 0) + 1
      requestIds.add(headers.get('x-request-id') ?? '')
    }
    if (service.process.exitCode !== null) throw new Error('the service has ended')
  }
  for (let round = 0; round < ROUNDS; round++) {
    const requests = oddRequests(await makeUsers(service, round))
    const many = fc.array(requests, { minLength: AT_ONCE, maxLength: AT_ONCE })
    const property = fc.asyncProperty(many, async all => {
      await Promise.all(all.map(check))
    })
    // The error of a failure shows its request, so that nothing needs to be shrunk.
    await fc.assert(property, { seed: SEED + round, numRuns: 12, endOnFailure: true })
  }
  report('nonsense', statuses)
  const expected = [200, 201, 400, 404, 405, 406, 413, 414, 415, 422, 431]
  expect(Object.keys(statuses).map(Number)).toEqual(expect.arrayContaining(expected))
  expect((await ask(service, `GET /users?name=${FORBIDDEN}`)).body).toEqual([])
  const { code, stdout, stderr } = await service.end('SIGTERM')
  // A clean end also shows that no connection was left open.
  expect([code, stderr]).toEqual([0, ''])
  const lines = linesOf(stdout)
  const isQuiet = (level: unknown) => ['trace', 'debug', 'info'].includes(String(level))
  expect(lines.filter(({ level }) => !isQuiet(level))).toEqual([])
  const logged = new Set(lines.map(({ requestId }) => requestId))
  expect([...requestIds].filter(id => !logged.has(id))).toEqual([])
  expect(stdout).not.toContain(SECRET)
  expect(stdout).not.toContain(DOMAIN)
})

/** Some users that exist for certain: their paths, their versions, and pages after a cursor. */
async function makeUsers(service: SpawnedService, round: number): Promise<OddOptions> {
  const tags: string[] = []
  const paths: string[] = []
  for (let nth = 0; nth < 8; nth++) {
    const user = { name: `Ann ${nth}`, email: `ann${nth}.of.${round}@${DOMAIN}` }
    const { headers } = await ask(service, 'POST /users', { user })
    paths.push(headers.get('location') ?? '')
    tags.push(headers.get('etag') ?? '')
  }
  const list = await ask(service, 'HEAD /users?per_page=1')
  const next = `/users?${/after=[\w-]+/.exec(list.headers.get('link') ?? '')?.[0]}`
  return { tags, paths: [...Array(5).fill(paths).flat(), next, `${next}A`] }
}

/** The answers to a request and to the valid one behind it, unless the connection was closed before. */
async function soundAnswers(port: number, { bytes, isWhole }: OddRequest) {
  const received = await exchange(port, Buffer.concat([bytes, Buffer.from(SANE)]))
  try {
    const answers = readAnswers(received)
    for (const answer of answers) expect(faultsOf(answer, SECRET)).toEqual([])
    const last = answers.filter(({ status }) => status !== 100)
    const ids = last.map(({ headers }) => headers.get('x-request-id'))
    expect(ids).not.toContain(HIDDEN_ID)
    if (isWhole) {
      const isClosed = (last[0] as Answer).headers.get('connection') === 'close'
      expect(ids.slice(1)).toEqual(isClosed ? [] : [SANE_ID])
    }
    return last
  } catch (cause) {
    const exchanged = `sent: ${shown(bytes)}\nreceived: ${shown(received)}`
    throw new Error(`${(cause as Error).message}\n${exchanged}`, { cause })
  }
}

/** What a client gets that sends these bytes and nothing after them. */
function exchange(port: number, bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    const watchdog = setTimeout(() => {
      reject(new Error(`left waiting: ${shown(bytes)}`))
      socket.destroy()
    }, HANG_MS)
    const chunks: Buffer[] = []
    socket.on('data', chunk => chunks.push(chunk))
    // A server that closes while a client still sends resets the connection. Its response before that counts.
    socket.on('error', () => {})
    socket.on('end', () => socket.end())
    socket.on('close', () => {
      clearTimeout(watchdog)
      resolve(Buffer.concat(chunks))
    })
    socket.end(bytes)
  })
}

/** One response as received. */
interface Answer {
  readonly status: number
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>
  /** `undefined` without a body, also if the head has its length. */
  readonly body: string | undefined
}

const STATUS_LINE = /^HTTP\/1\.1 (\d{3}) ([ -~]+)$/

const HEADER_LINE = /^([\w!#$%&'*+.^`|~-]+): ([ -~]*)$/

const BODILESS = [100, 204, 304]

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** The responses that a server sent until it closed the connection. Throws for bytes that are not a complete response. */
function readAnswers(bytes: Buffer): readonly Answer[] {
  const answers: Answer[] = []
  for (let at = 0; at < bytes.length; ) {
    const headEnd = bytes.indexOf('\r\n\r\n', at)
    if (headEnd < 0) throw new Error('a response without the end of its head')
    const { status, headers } = readHead(bytes.toString('latin1', at, headEnd))
    at = headEnd + 4
    const length = BODILESS.includes(status) ? 0 : Number(headers.get('content-length'))
    // No body of this service begins like a response.
    const isLeftOut = length === 0 || at === bytes.length || bytes.indexOf('HTTP/1.1 ', at) === at
    const end = isLeftOut ? at : at + length
    if (!(end <= bytes.length)) throw new Error('a body that is shorter than its Content-Length')
    const body = isLeftOut ? undefined : UTF_8.decode(bytes.subarray(at, end))
    answers.push({ status, headers, body })
    at = end
  }
  return answers
}

function readHead(head: string): Pick<Answer, 'status' | 'headers'> {
  const [statusLine = '', ...lines] = head.split('\r\n')
  const [, status, reason] = STATUS_LINE.exec(statusLine) ?? []
  if (STATUS_CODES[Number(status)] !== reason) throw new Error(`the status line ${statusLine}`)
  const headers = new Map<string, string>()
  for (const line of lines) {
    const [, name = '', value = ''] = HEADER_LINE.exec(line) ?? []
    if (name === '' || headers.has(name.toLowerCase())) throw new Error(`the header ${line}`)
    headers.set(name.toLowerCase(), value)
  }
  return { status: Number(status), headers }
}

/** Those of the contract, except those of limits and of faults of the service. */
const STATUSES = [
  ...[100, 200, 201, 204, 304],
  ...[400, 404, 405, 406, 408, 409, 410, 412, 413, 414, 415, 421, 422, 431, 501],
]

const LEAK = /SQLITE|SELECT |INSERT |node_modules|\.ts:|\.js:| {4}at |\/tmp\/|\/work\//

/** What of a response the contract does not allow. `secret` is a text that no response may contain. */
function faultsOf({ status, headers, body }: Answer, secret: string): string[] {
  if (status === 100) return []
  const claims = {
    status: STATUSES.includes(status),
    requestId: /^[\w.-]{1,128}$/.test(headers.get('x-request-id') ?? ''),
    nosniff: headers.get('x-content-type-options') === 'nosniff',
    cacheControl: status < 400 || headers.get('cache-control') === 'no-store',
    vary: /^Accept(,|$)/.test(headers.get('vary') ?? ''),
    unnamed: !headers.has('x-powered-by') && !headers.has('server'),
    allow: status !== 405 || /^[A-Z, ]+$/.test(headers.get('allow') ?? ''),
    entityTag: status !== 201 || /^"[!#-~]+"$/.test(headers.get('etag') ?? ''),
    bodiless: !BODILESS.includes(status) || !headers.has('content-length'),
    body: body === undefined || isBodyOf(status, headers.get('content-type'), body),
    noLeak: !LEAK.test(body ?? '') && ![...headers.values(), body].join().includes(secret),
  }
  return Object.entries(claims).flatMap(([claim, isKept]) => (isKept ? [] : claim))
}

/** Errors are in one of two formats, and everything else is JSON or a page. */
function isBodyOf(status: number, type: string | undefined, body: string): boolean {
  if (type === 'text/html; charset=utf-8') return status === 200 && /^<!doctype/.test(body)
  const json = JSON.parse(body)
  if (status < 400) return type === 'application/json; charset=utf-8'
  const isError = json.reason in ERRORS && typeof (json.detail ?? json.message) === 'string'
  if (type === 'application/problem+json') return isError && json.status === status
  const isOurs = type === 'application/json; charset=utf-8' && json.status === false
  return isOurs && isError && json.code === status
}
