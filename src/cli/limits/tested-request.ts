import { once } from 'node:events'
import {
  request as httpRequest,
  type IncomingMessage,
  METHODS,
  validateHeaderName,
  validateHeaderValue,
} from 'node:http'
import { isIP, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { text } from 'node:stream/consumers'
import { API_KEY_NAME_RULE, isApiKeyName } from '../../access/api-key.ts'
import { OperatorError } from '../../errors.ts'
import type { HttpServer } from '../../server/server.ts'
import { wrongValue } from '../terminal/terminal.ts'

/** The options of a request as they were given. */
export interface RequestOptions {
  readonly method: string
  readonly path: string
  readonly ip: string
  readonly header: readonly string[]
  readonly key?: string
  readonly body?: string
}

/** A request to send. */
export type TestedRequest = ReturnType<typeof parseRequest>

/** Throws `UsageError`. */
export function parseRequest(options: RequestOptions) {
  const { path, ip, header, key, body } = options
  const method = options.method.toUpperCase()
  if (!METHODS.includes(method) || method === 'CONNECT') {
    throw wrongValue('--method', options.method, 'a method such as GET')
  }
  if (!/^\/[\x21-\x7e]*$/.test(path)) {
    throw wrongValue(
      '--path',
      path,
      'a path that begins with /, with a query or not, percent-encoded',
    )
  }
  if (isIP(ip) === 0) throw wrongValue('--ip', ip, 'an address such as 198.51.100.7')
  if (key !== undefined && !isApiKeyName(key)) throw wrongValue('--key', key, API_KEY_NAME_RULE)
  return { method, path, ip, headers: header.map(parseHeader), key, body }
}

/** These frame the message and are set by the command. */
const OWN_HEADERS = ['connection', 'content-length', 'expect', 'transfer-encoding', 'upgrade']

function parseHeader(text: string) {
  const colon = text.indexOf(':')
  const name = text.slice(0, Math.max(colon, 0)).trim()
  const value = text.slice(colon + 1).trim()
  const mayBe = 'a header such as "Accept: text/html", but none that frames the message'
  if (OWN_HEADERS.includes(name.toLowerCase())) throw wrongValue('--header', text, mayBe)
  try {
    validateHeaderName(name)
    validateHeaderValue(name, value)
  } catch {
    throw wrongValue('--header', text, mayBe)
  }
  return { name, value }
}

const TIMEOUT_MS = 10_000

const NO_ANSWER =
  'the request got no answer within 10 seconds: a function under `with` does not answer'

/**
 * Sends a request to a server that does not listen, within this process. Rejects with `OperatorError` after 10 seconds without
 * an answer.
 */
export async function sendWithin(server: HttpServer, request: TestedRequest) {
  const { method, path, ip, headers, key, body } = request
  const [client, end] = duplexPair()
  const traits = { remoteAddress: ip, destroySoon: () => end.end() }
  server.accept(Object.assign(end, traits) as unknown as Socket)
  const timer = setTimeout(() => client.destroy(new OperatorError([NO_ANSWER])), TIMEOUT_MS)
  try {
    const setHost = headers.every(({ name }) => name.toLowerCase() !== 'host')
    const sent = httpRequest({ method, path, setHost, createConnection: () => client })
    // Before another one: of a key only its name matters.
    if (key !== undefined) sent.appendHeader('Authorization', 'Bearer key')
    for (const { name, value } of headers) sent.appendHeader(name, value)
    if (body !== undefined) {
      if (!sent.hasHeader('Content-Type')) sent.setHeader('Content-Type', 'application/json')
      sent.setHeader('Content-Length', Buffer.byteLength(body))
    }
    sent.end(body)
    const [response] = (await once(sent, 'response')) as [IncomingMessage]
    const { statusCode: status = 0, headers: received } = response
    return { status, headers: received, body: await text(response) }
  } finally {
    clearTimeout(timer)
    client.end()
  }
}
