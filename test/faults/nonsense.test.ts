import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inForm, report, SEED } from '../support/faults.ts'
import { ask } from '../support/json-requests.ts'
import { openManagedApp, TOKEN } from '../support/management-requests.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { linesOf, type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { type Answer, faultsOf, isBodyOf, readAnswers } from './answers.ts'
import {
  DOMAIN,
  FORBIDDEN,
  HIDDEN_ID,
  listed,
  type OddRequest,
  oddRequests,
  SECRET,
  shown,
  userBody,
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

const JSON_TYPE = ['application/json', ['text/plain', 'application/json;charset=utf-8']] as const

const PATHS =
  listed(`/users | /users | /users | /users | / | /livez | /readyz | /users/0 | /users/-1 | /users/1e3 | /users/9007199254740993
/users/%31 | /users/%zz | /users/%ff | /users/%00 | /users/1/ | //users | /USERS | /users/..;/ | /%2e%2e/%2e%2e/etc/passwd
/__proto__ | /users/constructor | /? | /users#x | * | http://x/users | http://[/ | http://[::1]:80/users/1 | http:///users
http:\\\\x\\users | x:1 | // | /us\xe9rs | /a b | /\0 | /% | /openapi.json | /docs | /users/"<>\\^\`{|} | /users/${'9'.repeat(5000)}
/${'a'.repeat(17_000)} | `)

test('every request, however odd, gets a response that the contract allows, in time', async () => {
  const env = { LOG_LEVEL: 'trace', CORS_ORIGINS: 'https://example.com' }
  const service = await spawnService({ cwd: temporaryFolder(), env })
  const statuses: Record<string, number> = {}
  const requestIds = new Set<string>()
  for (let round = 0; round < ROUNDS; round++) {
    const { paths, tags, cursor } = await makeUsers(service, round)
    const requests = oddRequests({
      methods: `GET | GET | GET | HEAD | POST | POST | POST | PUT | PATCH | PUT | DELETE | OPTIONS | TRACE | CONNECT | QUERY | PRI
get | G3T | \xdcn | \0 | `,
      tags,
      paths: [
        ...PATHS,
        ...Array(5).fill(paths).flat(),
        `/users?after=${cursor}`,
        `/users?after=${cursor}A`,
      ],
      parameters: `per_page | page | after | sort | email | name | q | created_after | updated_before | count | envelope | __proto__
toString | page[] | sort%00 | %zz | offset | `,
      body: userBody,
      usual: {
        Host: ['localhost', ['x', '']],
        'Content-Type': JSON_TYPE,
        Accept: ['*/*', ['application/problem+json', 'text/html']],
      },
    })
    await expectOfAll(requests, { seed: SEED + round, numRuns: 12 }, async request => {
      for (const { status, headers } of await soundAnswers(service.port, request)) {
        statuses[status] = (statuses[status] ?? 0) + 1
        requestIds.add(headers.get('x-request-id') ?? '')
      }
      if (service.process.exitCode !== null) throw new Error('the service has ended')
    })
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

const BANS = fc
  .dictionary(
    fc.constantFrom('rule', 'client', 'for', '__proto__'),
    fc.oneof(fc.constantFrom('probing', '192.0.2.1', '1 hour', 'never', '\ud800'), fc.jsonValue()),
  )
  .chain(ban => fc.constantFrom<unknown>({ ban }, { ban: [ban] }, { ban: null }, [ban], ban))
  .map(value => JSON.stringify(value))

test('1,500 malformed requests to the management port get no 5xx, and every refusal in the format of errors', async () => {
  const { managementPort, ops, logLines } = await openManagedApp({
    limits: { bans: [{ name: 'probing', path: '/wp*', maxretry: 3, findtime: 60, bantime: 60 }] },
    env: { MANAGEMENT_TOKEN: TOKEN },
  })
  const requests = oddRequests({
    methods: 'GET | GET | POST | POST | DELETE | HEAD | OPTIONS | PUT | PATCH | TRACE | FROB',
    paths:
      listed(`/bans | /bans | /bans | /limits | /limits/reload | /status | /metrics | /livez | /readyz | / | /assets/x/y | /bans/ | /BANS
//bans | /bans/%zz | /%ff | /limits//reload | /%2e%2e/x | * | http://[/bans | /users | /\0 | /bans#x | /b\xe4ns`),
    parameters:
      'rule | client | all | after | per_page | verbose | since | __proto__ | %zz | rule%00 | ',
    tags: ['"1"'],
    body: fc.oneof({ weight: 3, arbitrary: BANS }, userBody),
    usual: {
      Host: ['localhost', ['x', '']],
      'Content-Type': JSON_TYPE,
      Authorization: [
        `Bearer ${TOKEN}`,
        listed(
          `Bearer ${TOKEN}, Bearer ${TOKEN} | Bearer${TOKEN} | Bearer ${TOKEN}\xff | Bearer | Basic Og== | \t | `,
        ),
      ],
    },
  })
  const statuses = new Set<number>()
  await expectOfAll(requests, { seed: SEED, numRuns: 38 }, async ({ bytes }) => {
    for (const { status, headers, body } of readAnswers(await exchange(managementPort, bytes))) {
      statuses.add(status)
      expect(status, shown(bytes)).toBeLessThan(500)
      if (status < 400 || body === undefined) continue
      expect(isBodyOf(status, headers.get('content-type'), body), body).toBe(true)
    }
  })
  expect([...statuses]).toEqual(expect.arrayContaining([200, 400, 401, 403, 404, 405]))
  await ops.get('/readyz').expect(200)
  expect(logLines.filter(({ level }) => Number(level) >= 50)).toEqual([])
})

/** Many at a time. The error of a failure shows its request, so that nothing needs to be shrunk. */
function expectOfAll(
  requests: fc.Arbitrary<OddRequest>,
  runs: { readonly seed: number; readonly numRuns: number },
  check: (request: OddRequest) => Promise<void>,
): Promise<void> {
  const many = fc.array(requests, { minLength: AT_ONCE, maxLength: AT_ONCE })
  const property = fc.asyncProperty(many, async all => {
    await Promise.all(all.map(check))
  })
  return fc.assert(property, { ...runs, endOnFailure: true })
}

/** Some users that exist for certain, their versions, and the cursor of a page. */
async function makeUsers(service: SpawnedService, round: number) {
  const tags: string[] = []
  const paths: string[] = []
  for (let nth = 0; nth < 8; nth++) {
    const user = { name: `Ann ${nth}`, email: `ann${nth}.of.${round}@${DOMAIN}` }
    const { headers } = await ask(service, 'POST /users', { user })
    paths.push(headers.get('location') ?? '')
    tags.push(headers.get('etag') ?? '')
  }
  const list = await ask(service, 'HEAD /users?per_page=1')
  return { paths, tags, cursor: /after=([\w-]+)/.exec(list.headers.get('link') ?? '')?.[1] }
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
