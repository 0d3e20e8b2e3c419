import { Agent, type IncomingHttpHeaders, request } from 'node:http'
import type { FaultWindows } from './fault-windows.ts'
import type { Problems } from './problems.ts'
import type { Service } from './service.ts'
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
 * `answer`: any answer other than 5xx. `unavailable`: the request was not done. `unknown`: it may have been done or not.
 * `mayBeStale`: a standby may have answered.
 */
export type Reply = { readonly mayBeStale: boolean } & (
  | ({ readonly kind: 'answer'; readonly json: Json } & Answer)
  | { readonly kind: 'unavailable' | 'unknown' }
)

export type Answered = Extract<Reply, { kind: 'answer' }>

// biome-ignore lint/suspicious/noExplicitAny: it is whatever the service answers.
type Json = any

interface Failure {
  /** Why there is no answer. A connection may be cut `at once`, with its first request, or later. */
  readonly failure: 'refused' | 'cut' | 'cut at once' | 'silent'
  /** When the system had the whole request. */
  readonly sentAt: number | undefined
}

export type Client = ReturnType<typeof createClient>

const PATIENCE_MS = 60_000

const CONNECTIONS = 64

/** Like an impatient load balancer: it asks one of the services, and the other one if that does not take the connection. */
export function createClient(site: Site, windows: FaultWindows, problems: Problems) {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
  /** What clients got, by method, route and status, over all lives; or why they got no answer. */
  const outcomes: Tally = new Map()
  let serial = 0

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
        const { statusCode: status = 0, headers } = incoming
        incoming.setEncoding('utf8')
        incoming
          .toArray()
          .then(chunks => resolve({ status, headers, text: chunks.join('') }))
          .catch(() => fail('cut'))
      })
      outgoing.end(body)
    })
  }

  async function ask(asked: Ask): Promise<Reply> {
    serial++
    const preferred = asked.service ?? site.services[serial % 2]
    const [one, other] = site.services
    const from = Date.now()
    for (const service of preferred === other ? [other, one] : [one, other]) {
      const life = service.life()
      const got = await send(service, asked)
      if (!('failure' in got)) {
        add(life.answered, `${asked.method} ${asked.route} ${got.status}`)
        add(life.perSecond, String(Math.floor(Date.now() / 1000)))
        return judge(asked, service, got, from)
      }
      if (got.failure !== 'refused') {
        life.unanswered++
        noteFailure(asked, service, got, from)
        return { kind: 'unknown', mayBeStale: windows.met('database', from) }
      }
      const isPlanned = windows.met('kill', from, service.name)
      if (!isPlanned && !windows.met('restart', from, service.name)) {
        problems.note('a service refused a connection', service.name)
      }
    }
    problems.note('no service took a connection', asked.path)
    return { kind: 'unavailable', mayBeStale: windows.met('database', from) }
  }

  function noteFailure(asked: Ask, { name }: Service, got: Failure, from: number): void {
    const { failure, sentAt } = got
    const what = `${asked.method} ${asked.route}`
    add(outcomes, `${what} no answer (${failure})`)
    if (windows.met('kill', from, name)) return
    // A stop answers what was sent before it.
    const wasSentBefore = sentAt !== undefined && !windows.met('restart', sentAt, name, sentAt)
    if (!windows.met('restart', from, name) || wasSentBefore || failure === 'silent') {
      problems.note('no answer', `${name} ${what}: ${failure}`)
    }
  }

  function judge(asked: Ask, service: Service, got: Answer, from: number): Reply {
    const { status, text, headers } = got
    const what = `${asked.method} ${asked.route}`
    const mayBeStale = windows.met('database', from)
    const isJson = headers['content-type']?.includes('json') ?? false
    const json: Json = isJson && text !== '' ? JSON.parse(text) : undefined
    // Health checks say it in another member.
    const reason = status >= 400 ? (json?.reason ?? json?.status ?? '') : ''
    add(outcomes, `${what} ${status}${reason && ` ${reason}`}`)
    if (status < 500) return { kind: 'answer', json, mayBeStale, ...got }
    const ofDatabase = ['storage_unavailable', 'outcome_unknown', 'unavailable']
    const ofStop = ['shutting_down', 'unavailable']
    const isPlanned =
      (ofDatabase.includes(reason) && mayBeStale) ||
      (ofStop.includes(reason) && windows.met('restart', from, service.name))
    if (status !== 503 || !isPlanned) {
      problems.note(`${status} at the wrong time`, `${service.name} ${what}: ${text}`)
    }
    if (reason !== 'unavailable' && headers['retry-after'] === undefined) {
      problems.note('5xx without Retry-After', `${status} ${what} ${reason}`)
    }
    return { kind: reason === 'outcome_unknown' ? 'unknown' : 'unavailable', mayBeStale }
  }

  return { ask, outcomes, close: () => agent.destroy() }
}

/** The path of the next page of a list. */
export function nextPath({ headers }: Answered): string | undefined {
  const next = /<([^>]+)>; rel="next"/.exec(String(headers.link ?? ''))?.[1]
  if (next === undefined) return undefined
  const { pathname, search } = new URL(next, 'http://localhost')
  return pathname + search
}
