import { setTimeout as sleep } from 'node:timers/promises'
import { createClients } from '../faults/clients.ts'
import { until } from '../support/until.ts'
import { LISTS_A_MINUTE, type Service, type Site, STRIKES } from './site.ts'

const WRITERS_A_SERVICE = 24

const READERS_A_SERVICE = 4

const FLOOD = 100

/** How long a request may have been under way when a service was killed. */
const UNDER_WAY_MS = 10_000

/** After a fault, requests that met it may still be answered. */
const GRACE_MS = 5000

type Request = readonly [status: number, line: string, more?: RequestInit]

const JSON_TYPE = { 'Content-Type': 'application/json' }

/** Asked by readers, each with the status of its answer. */
const REQUESTS: readonly Request[] = [
  [200, 'GET /users?per_page=20&count=true&sort=-created_at'],
  [200, 'GET /users?per_page=20&q=first'],
  [200, 'GET /users?name=nobody'],
  [200, 'GET /livez'],
  [400, 'GET /users?per_page=0'],
  [401, 'GET /users', { headers: { Authorization: 'Bearer none' } }],
  [404, 'GET /users/0'],
  [405, 'PUT /users'],
  [406, 'GET /users', { headers: { Accept: 'image/png' } }],
  [400, 'POST /users', { body: '{"user": ', headers: JSON_TYPE }],
  [415, 'POST /users', { body: 'user', headers: { 'Content-Type': 'text/plain' } }],
  [422, 'POST /users', { body: '{"user": {"name": ""}}', headers: JSON_TYPE }],
]

/** Steady traffic of clients that write and read, and what was wrong with it. */
export function startTraffic({ services, headers }: Site, rate: number) {
  const problems: string[] = []
  /** When what was broken on purpose: the database, or a service by its name. */
  const faults: { readonly what: string; readonly from: number; to: number }[] = []
  let isOver = false

  const met = (what: string, from: number) =>
    faults.some(fault => fault.what === what && fault.to >= from)

  const note = (problem: string): string => {
    problems.push(`${new Date().toISOString()} ${problem}`.slice(0, 500))
    return 'failed'
  }

  const clients = WRITERS_A_SERVICE + READERS_A_SERVICE
  const pause = () => sleep(((services.length * clients * 1000) / rate) * 2 * Math.random())

  async function write(service: Service) {
    const { name, port, url } = service
    const writers = createClients({
      ...{ clients: WRITERS_A_SERVICE, label: name, headers, random: Math.random, pause },
    })
    const writing = (async () => {
      while (!isOver) {
        await writers.write(port)
        await until(() => isOver || fetch(`${url}/livez`).catch(() => false), 100)
        const now = process.hrtime.bigint()
        for (const at of writers.cutAt.splice(0)) {
          const askedAt = Date.now() - Number(now - at) / 1e6
          if (!met(name, askedAt)) note(`a request to ${name} got no answer`)
        }
      }
    })()
    return { writers, writing }
  }

  async function ask(service: Service, [status, line, more]: Request): Promise<void> {
    const [method = '', path = ''] = line.split(' ')
    const from = Date.now()
    const init = { method, ...more, headers: { ...headers, ...more?.headers } }
    const answer = await fetch(service.url + path, init).catch(() => undefined)
    const text = await answer?.text().catch(() => undefined)
    if (answer?.status === status && text !== undefined) return
    const mayBeDown = met(service.name, from) || (answer?.status === 503 && met('database', from))
    if (!mayBeDown) note(`${service.name} ${line}: ${answer?.status} ${text}`)
  }

  async function read(service: Service): Promise<void> {
    for (let serial = 0; !isOver; serial++) {
      await pause()
      await ask(service, REQUESTS[serial % REQUESTS.length] as Request)
    }
  }

  const reading = services.flatMap(service =>
    Array.from({ length: READERS_A_SERVICE }, () => read(service)),
  )
  const written = services.map(write)
  let addresses = 0

  return {
    problems,
    note,
    /** Breaks something for a while, and waits until all answers are as usual again. */
    during: async <T>(what: string, work: () => Promise<T>): Promise<T> => {
      const under = services.some(({ name }) => name === what) ? UNDER_WAY_MS : 0
      const fault = { what, from: Date.now() - under, to: Number.POSITIVE_INFINITY }
      faults.push(fault)
      const result = await work()
      await sleep(GRACE_MS)
      fault.to = Date.now()
      return result
    },
    /** More lists than a client may have, through both services at once. */
    flood: async ({ isExact }: { isExact: boolean }): Promise<string> => {
      const from = { 'X-Forwarded-For': `198.18.0.${++addresses}`, 'User-Agent': 'flood' }
      const asked = Array.from({ length: FLOOD }, async (_, serial) => {
        const url = `${services[serial % services.length]?.url}/users?per_page=1`
        return (await fetch(url, { headers: { ...headers, ...from } })).status
      })
      const statuses = await Promise.all(asked)
      const passed = statuses.filter(status => status === 200).length
      const refused = statuses.filter(status => status === 429).length
      // The minute may change meanwhile. After an outage of Redis each service counts by itself for a while.
      const most = isExact ? 2 * LISTS_A_MINUTE : FLOOD - 1
      const isRight = passed + refused === FLOOD && passed >= LISTS_A_MINUTE && passed <= most
      if (!isRight) note(`a flood: ${statuses}`)
      return `${passed} of ${FLOOD} passed`
    },
    /** A scanner that one service bans is denied by the other one too. */
    scan: async (): Promise<string> => {
      const from = { ...headers, 'X-Forwarded-For': `198.19.0.${++addresses}` }
      const statusAt = async ({ url }: Service, path: string) =>
        (await fetch(url + path, { headers: from })).status
      const [one, other] = services as [Service, Service]
      for (let strike = 0; strike < STRIKES; strike++) await statusAt(one, '/wp-login')
      const giveUpAt = Date.now() + 30_000
      for (const service of [one, other]) {
        while ((await statusAt(service, '/users/0')) !== 403) {
          if (Date.now() < giveUpAt) await sleep(100)
          else return note(`${service.name} does not know a ban`)
        }
      }
      return 'banned by both'
    },
    /** Ends it. Returns how many writes were acknowledged, after they are compared with what is there. */
    stop: async (): Promise<number> => {
      isOver = true
      await Promise.all(reading)
      let acknowledged = 0
      for (const { writers, writing } of await Promise.all(written)) {
        writers.stop()
        await writing
        const { port, url } = services[0] as Service
        for (const difference of await writers.compare(url)) note(difference)
        await writers.settle(port)
        writers.problems.forEach(note)
        acknowledged += writers.acknowledged()
      }
      return acknowledged
    },
  }
}
