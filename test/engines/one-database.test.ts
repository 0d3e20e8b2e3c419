import supertest from 'supertest'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { addKey, withKeyStore } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { createKeepAliveClient, type KeepAliveClient } from '../support/keep-alive-client.ts'
import { parseMetrics } from '../support/metrics-text.ts'
import { createPipeliningNeighbour } from '../support/pipelining-neighbour.ts'
import type { RawAnswer } from '../support/raw-http.ts'
import { managementUrlOf, useServicePair } from '../support/service-pair.ts'
import { run, type SpawnedService } from '../support/spawn-service.ts'
import { until } from '../support/until.ts'
import type { ShownUser } from '../support/user-order.ts'

const LIMIT = 5

const STRIKES = 3

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

beforeAll(async () => {
  authorization = `Bearer ${await addKey(pair.databaseUrl)}`
  await untilEach(async service => (await ask(service).get('/users')).status === 200)
})

function ask({ url }: SpawnedService) {
  return supertest.agent(url).set('Authorization', authorization)
}

/** Resolves once both services fulfil the condition. */
async function untilEach(isTrue: (service: SpawnedService) => Promise<boolean>): Promise<void> {
  for (const service of [pair.one, pair.other]) await until(() => isTrue(service), 50)
}

function connectTo({ port }: SpawnedService): KeepAliveClient {
  const client = createKeepAliveClient(port)
  onTestFinished(() => client.close())
  return {
    close: client.close,
    ask: ({ headers, ...request }) =>
      client.ask({ ...request, headers: { Authorization: authorization, ...headers } }),
  }
}

function post(client: KeepAliveClient, body: object, headers = {}) {
  return client.ask({ method: 'POST', path: '/users', headers, body: JSON.stringify(body) })
}

/** The number of responses by status, so that a failure shows how often it failed. */
function tally(answers: readonly (Pick<RawAnswer, 'status'> | undefined)[]) {
  const counts: Record<string, number> = {}
  for (const answer of answers) {
    const status = String(answer?.status)
    counts[status] = (counts[status] ?? 0) + 1
  }
  return counts
}

/** All users of a list, whose pages the services give in turn. */
async function walk(services: readonly SpawnedService[], query: string): Promise<ShownUser[]> {
  const found: ShownUser[] = []
  let target: string | undefined = `/users?${query}`
  for (let page = 0; target !== undefined; page++) {
    const answer = await ask(services[page % services.length] as SpawnedService).get(target)
    expect(answer.status).toBe(200)
    found.push(...answer.body)
    target = /<([^>]+)>; rel="next"/.exec(answer.headers.link ?? '')?.[1]
  }
  return found
}

function allUsers(service: SpawnedService): Promise<ShownUser[]> {
  return walk([service], 'per_page=1000')
}

test('both serve, having started at the same moment where no database was', async () => {
  for (const service of [pair.one, pair.other]) {
    expect((await ask(service).get('/readyz')).status).toBe(200)
    expect((await ask(service).get('/users')).body).toEqual([])
  }
})

test('creates, changes and deletes through both at once lose nothing', async () => {
  const [here, there] = [pair.one, pair.other]
  const expected = new Map<string, string>()
  const answers: (RawAnswer | undefined)[] = []
  async function work(mine: KeepAliveClient, others: KeepAliveClient): Promise<void> {
    for (let round = 0; round < 15; round++) {
      const created = await post(mine, newUserBody())
      const path = created?.headers.location ?? ''
      const body = JSON.stringify({ user: { name: `Changed ${path}` } })
      const changed = await others.ask({ method: 'PUT', path, body })
      answers.push(created, changed)
      expected.set(path, `Changed ${path}`)
      if (round % 3 > 0) continue
      answers.push(await mine.ask({ method: 'DELETE', path }))
      expected.delete(path)
    }
  }
  await Promise.all(
    Array.from({ length: 8 }, (_, index) => {
      const [mine, others] = index % 2 === 0 ? [here, there] : [there, here]
      return work(connectTo(mine), connectTo(others))
    }),
  )
  expect(tally(answers)).toEqual({ 200: 120, 201: 120, 204: 40 })
  for (const service of [here, there]) {
    const found = (await allUsers(service)).map(({ id, name }) => [`/users/${id}`, name])
    expect(found).toHaveLength(expected.size)
    expect(new Map(found as [string, string][])).toEqual(expected)
  }
})

test('of two creates with one e-mail, at both at once, one is 201 and one 422', async () => {
  const [here, there] = [connectTo(pair.one), connectTo(pair.other)]
  for (let round = 0; round < 20; round++) {
    const body = newUserBody()
    const answers = await Promise.all([post(here, body), post(there, body)])
    expect(tally(answers)).toEqual({ 201: 1, 422: 1 })
  }
})

test('an Idempotency-Key that is sent to both at once creates one user', async () => {
  const [here, there] = [connectTo(pair.one), connectTo(pair.other)]
  for (let round = 0; round < 20; round++) {
    const body = newUserBody()
    const headers = { 'Idempotency-Key': `both-${round}` }
    const answers = await Promise.all([post(here, body, headers), post(there, body, headers)])
    const created = answers.filter(answer => answer?.status === 201)
    const others = answers.filter(answer => answer?.status !== 201)
    expect(created.length).toBeGreaterThan(0)
    // The key is still in use by the other request.
    expect(others.every(answer => answer?.status === 409)).toBe(true)
    expect(new Set(created.map(answer => answer?.body)).size).toBe(1)
    for (const client of [here, there]) {
      const again = await post(client, body, headers)
      expect(again?.headers['idempotency-replayed']).toBe('true')
      expect(again?.body).toBe(created[0]?.body)
    }
  }
})

const ROUNDS = 40

/** Enough to keep the event loop busy for some milliseconds per turn. */
const NEIGHBOURS = 30

/** A change of the password reads the user before it writes. */
const NO_PASSWORD = JSON.stringify({ user: { password: null } })

test('the next request to the other one sees what the first has acknowledged, also among pipelining clients', async () => {
  const [here, there] = [connectTo(pair.one), connectTo(pair.other)]
  const existing = await post(here, newUserBody())
  const path = existing?.headers.location ?? ''
  for (let count = 0; count < NEIGHBOURS; count++) {
    const neighbour = createPipeliningNeighbour(pair.other.port, { path, authorization })
    onTestFinished(() => neighbour.close())
  }
  const read = []
  const changed = []
  const repeated = []
  for (let round = 0; round < ROUNDS; round++) {
    const created = await post(here, newUserBody(), { 'Idempotency-Key': `key-${round}` })
    const path = created?.headers.location ?? ''
    read.push(await there.ask({ method: 'GET', path }))

    const body = JSON.stringify({ user: { name: `Changed ${round}` } })
    const renamed = await here.ask({ method: 'PUT', path, body })
    const headers = { 'If-Match': renamed?.headers.etag ?? '' }
    changed.push(await there.ask({ method: 'PUT', path, headers, body: NO_PASSWORD }))

    const other = newUserBody()
    const key = { 'Idempotency-Key': `other-${round}` }
    await post(here, other, key)
    repeated.push(await post(there, other, key))
  }
  expect(tally(read)).toEqual({ 200: ROUNDS })
  expect(tally(changed)).toEqual({ 200: ROUNDS })
  expect(tally(repeated)).toEqual({ 201: ROUNDS })
})

test('a walk goes on at the other one with the cursor of the first', async () => {
  const byName = await walk([pair.one, pair.other], 'per_page=7&sort=-name')
  const byId = byName.toSorted((one, other) => one.id - other.id)
  expect(byId).toEqual(await allUsers(pair.one))
})

describe('what one learns, the other obeys soon', () => {
  const statusOf = async (service: SpawnedService, client: string) =>
    (await ask(service).get('/users').set('X-Forwarded-For', client)).status

  test('a ban that is earned at one, and its end by the management port or by a command', async () => {
    const lifts = [
      (client: string) => fetch(`${managementUrlOf(pair.other)}/bans?client=${client}`, DELETE),
      (client: string) =>
        run({
          cwd: pair.cwd,
          env: { DATABASE_URL: pair.databaseUrl },
          args: ['bans', 'lift', client],
        }),
    ]
    for (const [index, lift] of lifts.entries()) {
      const client = `203.0.113.${index + 1}`
      for (let strike = 0; strike < STRIKES; strike++) {
        await ask(pair.one).get('/login').set('X-Forwarded-For', client)
      }
      expect(await statusOf(pair.one, client)).toBe(403)
      await untilEach(async service => (await statusOf(service, client)) === 403)
      await lift(client)
      await untilEach(async service => (await statusOf(service, client)) === 200)
    }
  })

  test('a key that is revoked', async () => {
    const key = `Bearer ${await addKey(pair.databaseUrl, { name: 'web' })}`
    const status = async (service: SpawnedService) =>
      (await ask(service).get('/users').set('Authorization', key)).status
    await untilEach(async service => (await status(service)) === 200)
    await withKeyStore(pair.databaseUrl, store => store.revoke('web'))
    await untilEach(async service => (await status(service)) === 401)
  })
})

const DELETE = { method: 'DELETE' }

test('limits in memory count for each by itself, and so do the metrics', async () => {
  const passed = async (service: SpawnedService) => {
    const metrics = parseMetrics(await (await fetch(`${managementUrlOf(service)}/metrics`)).text())
    const labels = { type: 'throttle', rule: 'counted', outcome: 'passed' }
    return metrics.read('limit_decisions_total', labels)
  }
  for (const service of [pair.one, pair.other]) {
    const answers = []
    for (let count = 0; count < LIMIT + 2; count++) {
      answers.push(await ask(service).get('/users').set('User-Agent', 'counted'))
    }
    expect(tally(answers)).toEqual({ 200: LIMIT, 429: 2 })
    expect(await passed(service)).toBe(LIMIT)
  }
})

test('kill -9 of one loses nothing that either has acknowledged, and disturbs no request to the other', async () => {
  const acknowledged: string[] = []
  const answers: (RawAnswer | undefined)[] = []
  let isOver = false
  async function create(service: SpawnedService): Promise<void> {
    const client = connectTo(service)
    while (!isOver) {
      const answer = await post(client, newUserBody())
      if (answer === undefined && service !== survivor) return
      answers.push(answer)
      acknowledged.push(answer?.headers.location ?? '')
    }
  }
  const survivor = pair.one
  const services = [survivor, survivor, survivor, pair.other, pair.other, pair.other]
  const creating = Promise.all(services.map(create))
  await until(() => acknowledged.length > 60)
  pair.other.process.kill('SIGKILL')
  await pair.other.exited
  const before = acknowledged.length
  await until(() => acknowledged.length > before + 60)
  isOver = true
  await creating
  expect(tally(answers)).toEqual({ 201: acknowledged.length })
  await pair.restartOther()
  for (const service of [pair.one, pair.other]) {
    const found = new Set((await allUsers(service)).map(({ id }) => `/users/${id}`))
    expect(acknowledged.filter(path => !found.has(path))).toEqual([])
  }
})
