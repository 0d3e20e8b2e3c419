import { connect } from 'node:net'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Answer, readAnswers } from '../support/contract-shape.ts'
import { SEED } from '../support/faults.ts'
import { openManagedApp, TOKEN } from '../support/management-requests.ts'
import { type OddBody, oddBody } from './odd-bodies.ts'
import { ambiguous, brokenFrame, byLength, type Frame, inChunks } from './odd-frames.ts'
import { headers, listed, mostly, version } from './odd-heads.ts'
import { shown } from './odd-requests.ts'

const oneOf = (text: string) => fc.constantFrom(...listed(text))

const METHODS = 'GET | GET | POST | POST | DELETE | HEAD | OPTIONS | PUT | PATCH | TRACE | FROB'

const PATHS = `/bans | /bans | /bans | /limits | /limits/reload | /status | /metrics | /livez | /readyz | / | /assets/x/y
/bans/ | /BANS | //bans | /bans/%zz | /%ff | /limits/reload/ | /limits//reload | /%2e%2e/x | * | http://[/bans | http://x/bans
/users | /\0 | /bans#x | /b\xe4ns`

const NAMES =
  'rule | client | all | after | per_page | verbose | since | __proto__ | constructor | %zz | rule%00 | '

const VALUES = `1 | 0 | 1001 | -1 | 1.5 | 99999999999 | true | TRUE | false | % | %zz | %ff | %00 | %F0%9F%98%80 | %ED%A0%80 | +
probing | 192.0.2.1 | 2001:db8::/56 | ["a"] | "a" | WyJhIiwiYiJd | AAAAAAAAAAAAAAAA | ${'x'.repeat(9000)} | ${'%22'.repeat(500)} | `

const query = fc
  .array(fc.tuple(oneOf(NAMES), oneOf(VALUES)), { maxLength: 3 })
  .map(pairs => pairs.map(pair => pair.join('=')).join('&'))

/** Bodies of a ban, right but for some parts. */
const banBody: fc.Arbitrary<OddBody> = fc
  .dictionary(
    fc.constantFrom('rule', 'client', 'for', '__proto__'),
    fc.oneof(
      fc.constantFrom<unknown>('probing', '192.0.2.1', '1 hour', '', 'never', '\ud800', 'x\0y'),
      fc.constantFrom<unknown>(0, -1, 1e300, 60, null, true, [], ['1 hour'], {}, [[]]),
      fc.jsonValue(),
    ),
  )
  .chain(ban => fc.constantFrom<unknown>({ ban }, { ban: [ban] }, { ban: null }, [ban], ban, null))
  .map(value => ({ bytes: Buffer.from(JSON.stringify(value)), coding: undefined }) as OddBody)

const ODD_TOKENS = `Bearer ${TOKEN}\r\nAuthorization: Bearer ${TOKEN} | Bearer ${TOKEN}, Bearer ${TOKEN} | Bearer${TOKEN}
Bearer ${TOKEN}\xff | Bearer | Bearer \xff\xfe | Bearer ${'x'.repeat(9000)} | Basic Og== | \t | `

const ORIGINS = `http://localhost | http://localhost:1 | null | https://evil.example | http://[ | http:// | : | x | file:// | http://localhost, null
http://localhost/ | HTTP://LOCALHOST | http://user@localhost | blob:http://localhost | \xff | ${'x'.repeat(5000)} | `

const KNOWN = { ids: [1], versions: ['"1"'], cursor: 'x' }

/** A request in which any part may be odd. */
const almostRight = fc
  .record({
    method: oneOf(METHODS),
    path: mostly(
      oneOf(PATHS),
      fc.string().map(text => `/${text}`),
    ),
    query,
    version,
    authorization: mostly(
      fc.constant<string | undefined>(`Bearer ${TOKEN}`),
      oneOf(ODD_TOKENS),
      fc.constant(undefined),
    ),
    origin: mostly(fc.constant<string | undefined>(undefined), oneOf(ORIGINS)),
    odd: fc.array(headers(KNOWN), { maxLength: 2 }),
    body: fc.oneof({ weight: 3, arbitrary: banBody }, oddBody),
    frame: mostly<Frame>(fc.constant(byLength), fc.constant(inChunks), brokenFrame),
  })
  .map(({ method, path, query, version, authorization, origin, odd, body, frame }) => {
    const framed = /^P/.test(method) ? frame(body.bytes) : { headers: '', bytes: Buffer.alloc(0) }
    const fields = Object.entries({
      Host: 'localhost',
      ...(authorization !== undefined && { Authorization: authorization }),
      ...(origin !== undefined && { Origin: origin }),
      ...(/^P/.test(method) && { 'Content-Type': 'application/json' }),
    }).filter(([name]) => !odd.some(([other]) => other === name))
    const lines = [...fields, ...odd].map(([name, value]) => `${name}: ${value}\r\n`).join('')
    const target = query === '' ? path : `${path}?${query}`
    const head = `${method} ${target} ${version}\r\n${lines}${framed.headers}\r\n`
    return Buffer.concat([Buffer.from(head, 'latin1'), framed.bytes])
  })

const requests = fc.oneof(
  { weight: 12, arbitrary: almostRight },
  { weight: 2, arbitrary: ambiguous.map(bytes => Buffer.from(bytes)) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 200 }).map(bytes => Buffer.from(bytes)) },
)

test('1,500 malformed requests get no 5xx, and every refusal in the format of errors', async () => {
  const { managementPort, ops, logLines } = await openManagedApp({
    limits: { bans: [{ name: 'probing', path: '/wp*', maxretry: 3, findtime: 60, bantime: 60 }] },
    env: { MANAGEMENT_TOKEN: TOKEN },
  })
  const seen = new Set<number>()
  const batches = fc.array(requests, { minLength: 20, maxLength: 20 })
  await fc.assert(
    fc.asyncProperty(batches, async batch => {
      const all = await Promise.all(batch.map(bytes => exchange(managementPort, bytes)))
      for (const [at, answers] of all.entries()) {
        for (const answer of answers) {
          seen.add(answer.status)
          expect(faultOf(answer), shown(batch[at] as Buffer)).toBeUndefined()
        }
      }
    }),
    { seed: SEED, numRuns: 75 },
  )
  expect([...seen]).toEqual(expect.arrayContaining([400, 401, 403, 404, 405]))
  await ops.get('/readyz').expect(200)
  expect(logLines.filter(({ level }) => Number(level) >= 50)).toEqual([])
})

/** What a client gets that sends these bytes and nothing after them. */
function exchange(port: number, bytes: Buffer): Promise<readonly Answer[]> {
  return new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
    const chunks: Buffer[] = []
    socket.on('data', chunk => chunks.push(chunk))
    socket.on('error', () => {})
    socket.on('end', () => socket.end())
    socket.on('close', () => resolve(readAnswers(Buffer.concat(chunks))))
    socket.end(bytes)
  })
}

/** What is wrong with an answer. */
function faultOf({ status, headers, body }: Answer): string | undefined {
  if (status >= 500) return `${status}: ${body}`
  if (status < 400 || body === undefined) return undefined
  const type = headers.get('content-type')
  if (type === 'application/problem+json')
    return JSON.parse(body).status === status ? undefined : body
  const isError = type === 'application/json; charset=utf-8' && JSON.parse(body).code === status
  return isError ? undefined : body
}
