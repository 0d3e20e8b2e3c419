import { request as httpRequest, validateHeaderName, validateHeaderValue } from 'node:http'
import type { Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { OperatorError } from '../../errors.ts'
import type { HttpServer } from '../../server/server.ts'

/** A request to send, with each header as it is written on the wire. */
export interface TrialRequest {
  readonly method: string
  /** With the query string. */
  readonly path: string
  /** The client's address. */
  readonly ip: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string | undefined
}

export interface TrialAnswer {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

/** These frame the message and are set by the command. */
const OWN_HEADERS = ['connection', 'content-length', 'expect', 'transfer-encoding', 'upgrade']

const TIMEOUT_MS = 10_000

const NO_ANSWER =
  'the request got no answer within 10 seconds: a function under `with` does not answer'

/** Why a header cannot be sent; `undefined` if it can. */
export function problemWithHeader(name: string, value: string): string | undefined {
  if (OWN_HEADERS.includes(name.toLowerCase())) return 'the command sets this one itself'
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
    return undefined
  } catch {
    return 'it may be a header such as "Accept: text/html"'
  }
}

/** Sends a request to a server that does not listen, within this process. Rejects after 10 seconds without an answer. */
export function sendTrial(server: HttpServer, trial: TrialRequest): Promise<TrialAnswer> {
  const { method, path, ip, body } = trial
  const [client, end] = duplexPair()
  const traits = { remoteAddress: ip, destroySoon: () => end.end() }
  server.accept(Object.assign(end, traits) as unknown as Socket)
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new OperatorError([NO_ANSWER])), TIMEOUT_MS)
    const headers = allHeaders(trial).flat()
    const createConnection = () => client
    const sent = httpRequest({ method, path, headers, createConnection })
    sent.on('error', reject).on('response', response => {
      const chunks: Buffer[] = []
      response.on('data', chunk => chunks.push(chunk)).on('error', reject)
      response.on('end', () => {
        const { statusCode: status = 0, rawHeaders } = response
        const received = Array.from({ length: rawHeaders.length / 2 }, (_, index) => {
          return [rawHeaders[2 * index] ?? '', rawHeaders[2 * index + 1] ?? ''] as const
        })
        clearTimeout(timer)
        client.end()
        resolve({ status, headers: received, body: Buffer.concat(chunks).toString() })
      })
    })
    sent.end(body)
  })
}

function allHeaders({ method, headers, body }: TrialRequest) {
  const has = (name: string) => headers.some(([given]) => given.toLowerCase() === name)
  const takesBody = body !== undefined || ['POST', 'PUT', 'PATCH'].includes(method)
  return [
    ...(has('host') ? [] : [['Host', 'localhost'] as const]),
    ...headers,
    ...(body === undefined || has('content-type') ? [] : [['Content-Type', 'application/json']]),
    ...(takesBody ? [['Content-Length', `${Buffer.byteLength(body ?? '')}`]] : []),
    ['Connection', 'close'],
  ]
}
