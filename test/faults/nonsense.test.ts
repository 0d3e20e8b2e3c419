import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Answer, expectContractShape, readAnswers } from '../support/contract-shape.ts'
import { inForm, report, SEED } from '../support/faults.ts'
import { temporaryFolder } from '../support/open-test-app.ts'
import { type SpawnedService, spawnService } from '../support/spawn-service.ts'
import { exchange, SANE_ID } from './exchange.ts'
import { DOMAIN, FORBIDDEN, SECRET } from './odd-bodies.ts'
import { HIDDEN_ID } from './odd-frames.ts'
import type { Known } from './odd-heads.ts'
import { type OddRequest, oddRequests, shown } from './odd-requests.ts'

const REQUESTS = inForm({ short: 1500, long: 100_000 })

/** The most requests in flight at a time. */
const AT_ONCE = 40

/** After this many runs new users are created, because runs delete them. */
const RUNS_A_ROUND = 50

const USERS_A_ROUND = 8

test(
  'every request, however odd, gets a response that the contract allows, in time',
  async () => {
    let service = await start()
    const statuses: Record<string, number> = {}
    const requestIds = new Set<string>()
    const startedAt = performance.now()
    let sent = 0
    let hasHung = false

    async function expectSoundAnswers(requests: readonly OddRequest[]): Promise<void> {
      // Shrinking would wait as long at each step, although the request is already known.
      if (hasHung) return
      // Only running them again shows which request ended the service.
      if (service.process.exitCode !== null) service = await start()
      const onHang = () => {
        hasHung = true
      }
      const received = await exchange({ service, requests, onHang })
      sent += requests.length
      for (const [at, request] of requests.entries()) {
        for (const { status, headers } of soundAnswers(request, received[at] ?? Buffer.alloc(0))) {
          statuses[status] = (statuses[status] ?? 0) + 1
          requestIds.add(headers.get('x-request-id') ?? '')
        }
      }
    }

    for (let round = 0; sent < REQUESTS; round++) {
      const requests = fc.array(oddRequests(await makeUsers(service, round)), {
        minLength: 1,
        maxLength: AT_ONCE,
        size: 'max',
      })
      const property = fc.asyncProperty(requests, expectSoundAnswers)
      await fc.assert(property, { seed: (SEED + round) | 0, numRuns: RUNS_A_ROUND })
    }
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    report('nonsense', { sent, seconds, statuses })
    const forbidden = await fetch(`${service.url}/users?name=${FORBIDDEN}`)
    expect(await forbidden.json()).toEqual([])
    service.process.kill('SIGTERM')
    const { code, stdout, stderr } = await service.exited
    // A clean end also shows that no connection was left open.
    expect([code, stderr]).toEqual([0, ''])
    expectSoundLog(stdout, requestIds)
  },
  inForm({ short: 120_000, long: 1_800_000 }),
)

function start(): Promise<SpawnedService> {
  const env = { LOG_LEVEL: 'trace', CORS_ORIGINS: 'https://example.com' }
  return spawnService({ cwd: temporaryFolder(), env })
}

/** Some users that exist for certain, their versions, and the cursor of a page. */
async function makeUsers({ url }: SpawnedService, round: number): Promise<Known> {
  const ids: number[] = []
  const versions: string[] = []
  for (let nth = 0; nth < USERS_A_ROUND; nth++) {
    const user = { name: `Ann ${nth}`, email: `ann${nth}.of.${round}@${DOMAIN}` }
    const answer = await fetch(`${url}/users`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ user }),
    })
    ids.push(((await answer.json()) as { id: number }).id)
    versions.push(answer.headers.get('etag') ?? '')
  }
  const list = await fetch(`${url}/users?per_page=1`, { method: 'HEAD' })
  const cursor = /after=([\w-]+)/.exec(list.headers.get('link') ?? '')?.[1] ?? ''
  return { ids, versions, cursor }
}

function soundAnswers(request: OddRequest, received: Buffer): readonly Answer[] {
  try {
    const answers = readAnswers(received)
    for (const answer of answers) expectContractShape(answer, { ...request, secret: SECRET })
    const finalAnswers = answers.filter(({ status }) => status !== 100)
    const ids = finalAnswers.map(({ headers }) => headers.get('x-request-id'))
    expect(ids).not.toContain(HIDDEN_ID)
    if (request.isWhole) expectOneAnswer(finalAnswers)
    return finalAnswers
  } catch (cause) {
    const exchanged = `sent: ${shown(request.bytes)}\nreceived: ${shown(received)}`
    throw new Error(`${(cause as Error).message}\n${exchanged}`, { cause })
  }
}

/** Also checks the response to the valid request behind it, unless the connection was closed before. */
function expectOneAnswer([first, second, ...more]: readonly Answer[]): void {
  expect(more).toEqual([])
  expect(first).toBeDefined()
  if (first?.headers.get('connection') === 'close') expect(second).toBeUndefined()
  else expect(second?.headers.get('x-request-id')).toBe(SANE_ID)
}

function expectSoundLog(stdout: string, requestIds: ReadonlySet<string>): void {
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
  expect(lines.filter(({ level }) => !['trace', 'debug', 'info'].includes(level))).toEqual([])
  const logged = new Set(lines.map(({ requestId }) => requestId))
  expect([...requestIds].filter(id => !logged.has(id))).toEqual([])
  expect(stdout).not.toContain(SECRET)
  expect(stdout).not.toContain(DOMAIN)
}
