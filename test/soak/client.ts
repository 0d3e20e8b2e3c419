import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import type { FaultWindows } from './fault-windows.ts'
import type { Problems } from './problems.ts'
import type { Life, Service } from './service.ts'
import type { KeyName, Site } from './site.ts'
import { add, type Tally } from './tally.ts'

export interface Ask {
  readonly method: string
  readonly path: string
  /** Its template in the metrics. */
  readonly route: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly key?: KeyName | 'unknown' | 'none'
  readonly client?: string
  /** Which service to prefer. */
  readonly service?: Service | undefined
}

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

/**
 * `answer`: any answer other than 503. `unavailable`: the request was not done. `unknown`: it may have been done or not.
 * `mayBeStale`: a standby may have answered.
 */
export type Reply = { readonly mayBeStale: boolean } & (
  | ({ readonly kind: 'answer'; readonly json: Json; readonly life: Life } & Answer)
  | { readonly kind: 'unavailable' | 'unknown' }
)

// biome-ignore lint/suspicious/noExplicitAny: it is whatever the service answers.
export type Json = any

interface Failure {
  /** Why there is no answer. A connection may be cut `at once`, with its first request, or later. */
  readonly failure: 'refused' | 'cut' | 'cut at once' | 'silent'
  /** When the system had the whole request. */
  readonly sentAt: number | undefined
}

export interface Client {
  ask(ask: Ask): Promise<Reply>
  /** What clients got, by method, route and status, over all lives; or why they got no answer. */
  readonly outcomes: Tally
  inFlight(): number
  close(): void
}

const PATIENCE_MS = 60_000

const CONNECTIONS = 64

/** Like an impatient load balancer: it asks one of the services, and the other one if that does not take the connection. */
export function createClient(site: Site, windows: FaultWindows, problems: Problems): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  const outcomes: Tally = new Map()
  let serial = 0
  let inFlight = 0

  function headersOf(ask: Ask): Record<string, string> {
    const { key = 'full', client = `10.0.${serial % 8}.${(serial >> 3) % 250}`, body } = ask
    const token = key === 'unknown' ? `urk_${'0'.repeat(49)}` : key !== 'none' && site.keys[key]
    return {
      'X-Forwarded-For': client,
      ...(token !== false && { Authorization: `Bearer ${token}` }),
      ...(body !== undefined && {
        'Content-Type': 'application/json',
        'Content-Length': String(Buffer.byteLength(body)),
      }),
      ...ask.headers,
    }
  }

  function send(service: Service, ask: Ask): Promise<Answer | Failure> {
    const { method, path, body } = ask
    return new Promise(resolve => {
      let sentAt: number | undefined
      const fail = (failure: Failure['failure']) => resolve({ failure, sentAt })
      const outgoing = request({
        ...{ host: '127.0.0.1', port: service.port, method, path, agent, headers: headersOf(ask) },
        timeout: PATIENCE_MS,
      })
      outgoing.on('timeout', () => {
        fail('silent')
        outgoing.destroy()
      })
      outgoing.on('error', (error: NodeJS.ErrnoException) => {
        if (error.code === 'ECONNREFUSED') fail('refused')
        else fail(outgoing.reusedSocket ? 'cut' : 'cut at once')
      })
      outgoing.on('finish', () => {
        sentAt = Date.now()
      })
      outgoing.on('response', incoming => {
        let text = ''
        incoming.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        incoming.on('error', () => fail('cut'))
        incoming.on('end', () =>
          resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text }),
        )
      })
      outgoing.end(body)
    })
  }

  async function ask(asked: Ask): Promise<Reply> {
    serial++
    inFlight++
    const preferred = asked.service ?? site.services[serial % 2]
    const [one, other] = site.services
    const order = preferred === other ? [other, one] : [one, other]
    const from = Date.now()
    const name = `${asked.method} ${asked.route}`
    try {
      for (const service of order) {
        const life = service.life()
        const got = await send(service, asked)
        const mayBeStale = windows.met('database', from)
        const isKilled = windows.met('kill', from, service.name)
        const isPlanned = isKilled || windows.met('restart', from, service.name)
        if ('failure' in got && got.failure === 'refused') {
          if (!isPlanned) problems.note('a service refused a connection', service.name)
          continue
        }
        if ('failure' in got) {
          const { failure, sentAt } = got
          life.unanswered++
          add(outcomes, `${name} no answer (${failure})`)
          // A stop answers what was sent before it.
          const wasSentBefore =
            sentAt !== undefined && !windows.met('restart', sentAt, service.name, sentAt)
          if (!isKilled && (!isPlanned || wasSentBefore || failure === 'silent')) {
            problems.note('no answer', `${service.name} ${name}: ${failure}`)
          }
          return { kind: 'unknown', mayBeStale }
        }
        return judge({ asked, name, service, life, got, from, mayBeStale })
      }
      problems.note('no service took a connection', name)
      return { kind: 'unavailable', mayBeStale: windows.met('database', from) }
    } finally {
      inFlight--
    }
  }

  function judge(answered: {
    asked: Ask
    name: string
    service: Service
    life: Life
    got: Answer
    from: number
    mayBeStale: boolean
  }): Reply {
    const { name, service, life, got, from, mayBeStale } = answered
    const { status, text } = got
    const isJson = got.headers['content-type']?.includes('json') ?? false
    const json: Json = isJson && text !== '' ? JSON.parse(text) : undefined
    add(life.answered, `${name} ${status}`)
    const second = Math.floor(Date.now() / 1000)
    life.perSecond.set(second, (life.perSecond.get(second) ?? 0) + 1)
    // Health checks say it in another member.
    const reason = status >= 400 ? (json?.reason ?? json?.status ?? '') : ''
    add(outcomes, `${name} ${status}${reason && ` ${reason}`}`)
    if (status >= 500) {
      const isOfDatabase = ['storage_unavailable', 'outcome_unknown'].includes(reason)
      const isOfStop = ['shutting_down', 'unavailable'].includes(reason)
      const isPlanned =
        status === 503 &&
        ((isOfDatabase && mayBeStale) ||
          (isOfStop && windows.met('restart', from, service.name)) ||
          (reason === 'unavailable' && mayBeStale))
      if (!isPlanned)
        problems.note(`${status} at the wrong time`, `${service.name} ${name}: ${text}`)
      if (reason !== 'unavailable' && got.headers['retry-after'] === undefined) {
        problems.note('5xx without Retry-After', `${status} ${name} ${reason}`)
      }
      return { kind: reason === 'outcome_unknown' ? 'unknown' : 'unavailable', mayBeStale }
    }
    return { kind: 'answer', json, life, mayBeStale, ...got }
  }

  return { ask, outcomes, inFlight: () => inFlight, close: () => agent.destroy() }
}
