import { afterEach, beforeAll, expect, test } from 'vitest'
import { addKey } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { readAllUsers } from '../support/json-requests.ts'
import { type Asked, createKeepAliveClient } from '../support/keep-alive-client.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import type { RawAnswer } from '../support/raw-http.ts'
import { managementUrlOf, useServicePair } from '../support/service-pair.ts'
import type { SpawnedService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'

const LIMIT = 5
const STRIKES = 3
const ROUNDS = 20

/** Both start at the same moment, where there is no database yet. */
const pair = useServicePair({
  limits: {
    throttle: [{ name: 'counted', userAgent: 'counted', limit: LIMIT, period: '1 day' }],
    bans: [
      { name: 'login', path: '/login', maxretry: STRIKES, findtime: '1 day', bantime: '1 day' },
    ],
  },
  env: () => ({ API_KEYS: 'required' }),
})

let authorization = ''
const both = () => [pair.one, pair.other]

beforeAll(async () => {
  authorization = `Bearer ${await addKey(pair.databaseUrl)}`
  await untilEach(async service => (await get(service, '/users')).status === 200)
})

const closings: (() => void)[] = []
afterEach(() => {
  for (const close of closings.splice(0)) close()
})

test('creates, changes and deletes through both services at once lose nothing', async () => {
  const expected = await allNames(pair.one)
  const answers: (RawAnswer | undefined)[] = []
  async function work(mine: SpawnedService, others: SpawnedService): Promise<void> {
    const [here, there] = [connectTo(mine), connectTo(others)]
    for (let round = 0; round < 15; round++) {
      const created = await here.post(newUserBody())
      const path = pathOf(created)
      answers.push(created, await there.put(path, { user: { name: `Changed ${path}` } }))
      expected.set(path, `Changed ${path}`)
      if (round % 3 > 0) continue
      answers.push(await here.delete(path))
      expected.delete(path)
    }
  }
  const { one, other } = pair
  await Promise.all([1, 2, 3, 4].flatMap(() => [work(one, other), work(other, one)]))
  expect(tally(answers)).toEqual({ 200: 120, 201: 120, 204: 40 })
  for (const service of both()) expect(await allNames(service)).toEqual(expected)
})

/** Sends to both at the same moment. Two to each: those that meet in one process take another way than those in the database. */
function race(send: (client: ReturnType<typeof connectTo>) => Promise<RawAnswer | undefined>) {
  return Promise.all([...both(), ...both()].map(service => send(connectTo(service))))
}

test('of creates of one e-mail at both one is 201, and of changes of one version one is 200', async () => {
  const created = await connectTo(pair.one).post(newUserBody())
  let version = created?.headers.etag ?? ''
  for (let round = 0; round < ROUNDS; round++) {
    const body = newUserBody()
    expect(tally(await race(client => client.post(body)))).toEqual({ 201: 1, 422: 3 })
    const change = { user: { name: `Round ${round}` } }
    const match = { 'If-Match': version }
    const answers = await race(client => client.put(pathOf(created), change, match))
    expect(tally(answers)).toEqual({ 200: 1, 412: 3 })
    version = answers.find(answer => answer?.status === 200)?.headers.etag ?? ''
  }
})

test('creates with one Idempotency-Key at both create one user', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const body = newUserBody()
    const key = { 'Idempotency-Key': `race-${round}` }
    const answers = await race(client => client.post(body, key))
    // A key that another request still uses is 409.
    const { 201: created = 0, 409: used = 0 } = tally(answers)
    expect([created + used, created > 0]).toEqual([4, true])
    const again = []
    for (const service of both()) again.push(await connectTo(service).post(body, key))
    const replayed = again.map(answer => answer?.headers['idempotency-replayed'])
    expect(replayed).toEqual(['true', 'true'])
    const users = [...answers, ...again].filter(answer => answer?.status === 201)
    expect(new Set(users.map(answer => answer?.body)).size).toBe(1)
  }
})

test('a ban that is earned at one, and its end by the management port of the other, hold at both soon', async () => {
  const client = '203.0.113.1'
  const statusOf = async (service: SpawnedService, path = '/users') =>
    (await get(service, path, { 'X-Forwarded-For': client })).status
  for (let strike = 0; strike < STRIKES; strike++) await statusOf(pair.one, '/login')
  expect(await statusOf(pair.one)).toBe(403)
  await untilEach(async service => (await statusOf(service)) === 403)
  await fetch(`${managementUrlOf(pair.other)}/bans?client=${client}`, { method: 'DELETE' })
  await untilEach(async service => (await statusOf(service)) === 200)
})

test('limits in memory count for each by itself, and so do the metrics', async () => {
  for (const service of both()) {
    const answers = []
    for (let count = 0; count < LIMIT + 2; count++) {
      answers.push(await get(service, '/users', { 'User-Agent': 'counted' }))
    }
    expect(tally(answers)).toEqual({ 200: LIMIT, 429: 2 })
    const metrics = await (await fetch(`${managementUrlOf(service)}/metrics`)).text()
    const labels = { type: 'throttle', rule: 'counted', outcome: 'passed' }
    expect(parseMetrics(metrics).read('limit_decisions_total', labels)).toBe(LIMIT)
  }
})

test('kill -9 of one loses nothing that either has acknowledged, and disturbs no request to the other', async () => {
  const acknowledged: string[] = []
  const answers: (RawAnswer | undefined)[] = []
  const survivor = pair.one
  let isOver = false
  async function create(service: SpawnedService): Promise<void> {
    const client = connectTo(service)
    while (!isOver) {
      const answer = await client.post(newUserBody())
      if (answer === undefined && service !== survivor) return
      answers.push(answer)
      acknowledged.push(pathOf(answer))
    }
  }
  const creating = Promise.all([...both(), ...both(), ...both()].map(create))
  await until(() => acknowledged.length > 60)
  await pair.other.end('SIGKILL')
  const before = acknowledged.length
  await until(() => acknowledged.length > before + 60)
  isOver = true
  await creating
  expect(tally(answers)).toEqual({ 201: acknowledged.length })
  await pair.restartOther()
  for (const service of both()) {
    const found = await allNames(service)
    expect([...found.keys()]).toEqual(expect.arrayContaining(acknowledged))
  }
})

const pathOf = (created: RawAnswer | undefined) => created?.headers.location ?? ''

/** The number of responses by status, so that a failure shows how often it failed. */
function tally(answers: readonly (RawAnswer | undefined)[]) {
  const counts: Record<string, number> = {}
  for (const answer of answers) {
    const status = String(answer?.status)
    counts[status] = (counts[status] ?? 0) + 1
  }
  return counts
}

/** A connection of its own. */
function connectTo({ port }: SpawnedService) {
  const client = createKeepAliveClient(port)
  closings.push(client.close)
  const ask = ({ headers, ...asked }: Asked) =>
    client.ask({ ...asked, headers: { Authorization: authorization, ...headers } })
  return {
    get: (path: string, headers = {}) => ask({ method: 'GET', path, headers }),
    delete: (path: string) => ask({ method: 'DELETE', path }),
    post: (body: object, headers = {}) =>
      ask({ method: 'POST', path: '/users', headers, body: JSON.stringify(body) }),
    put: (path: string, body: object, headers = {}) =>
      ask({ method: 'PUT', path, headers, body: JSON.stringify(body) }),
  }
}

async function get(service: SpawnedService, path: string, headers = {}): Promise<RawAnswer> {
  return (await connectTo(service).get(path, headers)) as RawAnswer
}

/** Resolves once both services fulfil the condition. */
async function untilEach(isTrue: (service: SpawnedService) => Promise<boolean>): Promise<void> {
  for (const service of both()) await until(() => isTrue(service), 50)
}

/** The names of all users by their paths. */
async function allNames({ url }: SpawnedService): Promise<Map<string, string>> {
  const lines = await readAllUsers(url, { Authorization: authorization })
  return new Map([...lines].map(([id, line]) => [`/users/${id}`, JSON.parse(line).name]))
}
