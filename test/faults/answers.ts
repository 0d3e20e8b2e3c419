import { STATUS_CODES } from 'node:http'
import { ERRORS } from '../../src/errors.ts'

/** One response as received. */
export interface Answer {
  readonly status: number
  /** By lower-case name. */
  readonly headers: ReadonlyMap<string, string>
  /** `undefined` without a body, also if the head has its length. */
  readonly body: string | undefined
}

const STATUS_LINE = /^HTTP\/1\.1 (\d{3}) ([ -~]+)$/

const HEADER_LINE = /^([\w!#$%&'*+.^`|~-]+): ([ -~]*)$/

const BODILESS = [100, 204, 304]

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** The responses that a server sent until it closed the connection. Throws for bytes that are not a complete response. */
export function readAnswers(bytes: Buffer): readonly Answer[] {
  const answers: Answer[] = []
  for (let at = 0; at < bytes.length; ) {
    const headEnd = bytes.indexOf('\r\n\r\n', at)
    if (headEnd < 0) throw new Error('a response without the end of its head')
    const { status, headers } = readHead(bytes.toString('latin1', at, headEnd))
    at = headEnd + 4
    const length = BODILESS.includes(status) ? 0 : Number(headers.get('content-length'))
    // No body of this service begins like a response.
    const isLeftOut = length === 0 || at === bytes.length || bytes.indexOf('HTTP/1.1 ', at) === at
    const end = isLeftOut ? at : at + length
    if (!(end <= bytes.length)) throw new Error('a body that is shorter than its Content-Length')
    const body = isLeftOut ? undefined : UTF_8.decode(bytes.subarray(at, end))
    answers.push({ status, headers, body })
    at = end
  }
  return answers
}

function readHead(head: string): Pick<Answer, 'status' | 'headers'> {
  const [statusLine = '', ...lines] = head.split('\r\n')
  const [, status, reason] = STATUS_LINE.exec(statusLine) ?? []
  if (STATUS_CODES[Number(status)] !== reason) throw new Error(`the status line ${statusLine}`)
  const headers = new Map<string, string>()
  for (const line of lines) {
    const [, name = '', value = ''] = HEADER_LINE.exec(line) ?? []
    if (name === '' || headers.has(name.toLowerCase())) throw new Error(`the header ${line}`)
    headers.set(name.toLowerCase(), value)
  }
  return { status: Number(status), headers }
}

/** Those of the contract, except those of limits and of faults of the service. */
const STATUSES = [
  ...[100, 200, 201, 204, 304],
  ...[400, 404, 405, 406, 408, 409, 410, 412, 413, 414, 415, 421, 422, 431, 501],
]

const LEAK = /SQLITE|SELECT |INSERT |node_modules|\.ts:|\.js:| {4}at |\/tmp\/|\/work\//

/** What of a response the contract does not allow. `secret` is a text that no response may contain. */
export function faultsOf({ status, headers, body }: Answer, secret: string): string[] {
  if (status === 100) return []
  const claims = {
    status: STATUSES.includes(status),
    requestId: /^[\w.-]{1,128}$/.test(headers.get('x-request-id') ?? ''),
    nosniff: headers.get('x-content-type-options') === 'nosniff',
    cacheControl: status < 400 || headers.get('cache-control') === 'no-store',
    vary: /^Accept(,|$)/.test(headers.get('vary') ?? ''),
    unnamed: !headers.has('x-powered-by') && !headers.has('server'),
    allow: status !== 405 || /^[A-Z, ]+$/.test(headers.get('allow') ?? ''),
    entityTag: status !== 201 || /^"[!#-~]+"$/.test(headers.get('etag') ?? ''),
    bodiless: !BODILESS.includes(status) || !headers.has('content-length'),
    body: body === undefined || isBodyOf(status, headers.get('content-type'), body),
    noLeak: !LEAK.test(body ?? '') && ![...headers.values(), body].join().includes(secret),
  }
  return Object.entries(claims).flatMap(([claim, isKept]) => (isKept ? [] : claim))
}

/** Errors are in one of two formats, and everything else is JSON or a page. */
function isBodyOf(status: number, type: string | undefined, body: string): boolean {
  if (type === 'text/html; charset=utf-8') return status === 200 && /^<!doctype/.test(body)
  const json = JSON.parse(body)
  if (status < 400) return type === 'application/json; charset=utf-8'
  const isError = json.reason in ERRORS && typeof (json.detail ?? json.message) === 'string'
  if (type === 'application/problem+json') return isError && json.status === status
  const isOurs = type === 'application/json; charset=utf-8' && json.status === false
  return isOurs && isError && json.code === status
}
