import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inForm, report, SEED } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { linesOf, type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { type Answer, faultsOf, readAnswers } from './answers.ts'
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
