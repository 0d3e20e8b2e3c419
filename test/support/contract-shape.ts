import { STATUS_CODES } from 'node:http'
import { z } from 'zod'
import type { ErrorCode } from '../../src/errors.ts'
import { ERROR_KINDS } from '../../src/http/error-kinds.ts'

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

const BODILESS = new Set([100, 204, 304])

/** The responses that a server sent until it closed the connection. Throws for bytes that are not a complete response. */
export function readAnswers(bytes: Buffer): readonly Answer[] {
  const answers: Answer[] = []
  let at = 0
  while (at < bytes.length) {
    const headEnd = bytes.indexOf('\r\n\r\n', at)
    if (headEnd < 0) throw new Error('a response without the end of its head')
    const { status, headers } = readHead(bytes.toString('latin1', at, headEnd))
    at = headEnd + 4
    const length = BODILESS.has(status) ? 0 : Number(headers.get('content-length'))
    // No body of this service begins like a response.
    const isLeftOut = length === 0 || at === bytes.length || bytes.indexOf('HTTP/1.1 ', at) === at
    const end = isLeftOut ? at : at + length
    if (!(end <= bytes.length))
      throw new Error('a body that differs in length from its Content-Length')
    const body = isLeftOut ? undefined : UTF_8.decode(bytes.subarray(at, end))
    answers.push({ status, headers, body })
    at = end
  }
  return answers
}

const UTF_8 = new TextDecoder('utf-8', { fatal: true })

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

/** The parts of a request on which its responses depend. */
export interface AskedFor {
  readonly bytes: Buffer
  /** Texts that no response may contain. */
  readonly secret: string
}

const SUCCESSES = [200, 201, 204, 304]

/** The errors of the contract, except those of limits and of faults of the service. */
const REFUSALS = [400, 404, 405, 406, 408, 409, 410, 412, 413, 415, 422, 431]

const LEAK = /SQLITE|SELECT |INSERT |node_modules|\.ts:|\.js:| {4}at |\/tmp\/|\/work\//

/** Throws for a response that the contract does not allow, with everything that is wrong with it. */
export function expectContractShape(answer: Answer, { bytes, secret }: AskedFor): void {
  const { status, headers, body } = answer
  const asked = bytes.toString('latin1')
  if (status === 100) {
    must({ expected: /^expect: *100-continue/im.test(asked) })
    return
  }
  const isRefusal = REFUSALS.includes(status)
  const value = body?.startsWith('{') || body?.startsWith('[') ? JSON.parse(body) : body
  const type = headers.get('content-type')
  const cacheControl = headers.get('cache-control') ?? ''
  const text = `${[...headers.values()].join('\n')}\n${body}`
  must({
    status: isRefusal || SUCCESSES.includes(status),
    requestId: /^[\w.-]{1,128}$/.test(headers.get('x-request-id') ?? ''),
    cacheControl:
      body === undefined && [200, 304].includes(status)
        ? ['no-store', 'private, no-cache', 'public, no-cache'].includes(cacheControl)
        : cacheControl === cacheControlOf(value, isRefusal),
    nosniff: headers.get('x-content-type-options') === 'nosniff',
    vary: /^Accept(,|$)/.test(headers.get('vary') ?? ''),
    unnamed: !headers.has('x-powered-by') && !headers.has('server'),
    allow: status !== 405 || /^[A-Z, ]+$/.test(headers.get('allow') ?? ''),
    retryAfter: status !== 409 || /^\d+$/.test(headers.get('retry-after') ?? ''),
    location: status !== 201 || headers.get('location') === `/users/${value?.id}`,
    entityTag: !isKind(value, USER) || /^"[!#-~]+"$/.test(headers.get('etag') ?? ''),
    leftOut: body !== undefined || BODILESS.has(status) || asked.includes('HEAD '),
    bodiless: !BODILESS.has(status) || !headers.has('content-length'),
    problem: type !== 'application/problem+json' || (isRefusal && /^accept:/im.test(asked)),
    body: body === undefined || isBodyOf(answer, value),
    noLeak: !LEAK.test(text) && !text.includes(secret),
  })
}

function cacheControlOf(value: unknown, isRefusal: boolean): string {
  if (isRefusal || isKind(value, HEALTH)) return 'no-store'
  return isKind(value, DOCUMENT) ? 'public, no-cache' : 'private, no-cache'
}

function must(claims: Readonly<Record<string, boolean>>): void {
  const broken = Object.keys(claims).filter(claim => !claims[claim])
  if (broken.length > 0) throw new Error(`broken: ${broken.join(', ')}`)
}

function isBodyOf({ status, headers }: Answer, value: unknown): boolean {
  const type = headers.get('content-type')
  if (type === 'application/problem+json') {
    const { title, status: told } = value as z.infer<typeof PROBLEM>
    return isKind(value, PROBLEM) && told === status && title === STATUS_CODES[status]
  }
  if (type === 'text/html; charset=utf-8') return status === 200 && /^<!doctype/.test(`${value}`)
  if (type !== 'application/json; charset=utf-8') return false
  if (status === 201) return isKind(value, USER)
  if (status === 200) return isKind(value, SUCCESS)
  return isKind(value, ERROR) && (value as z.infer<typeof ERROR>).code === status
}

/** The contract fixes the order of keys too, which Zod ignores. */
function isKind(value: unknown, kind: z.ZodType): boolean {
  const result = kind.safeParse(value)
  return result.success && JSON.stringify(result.data) === JSON.stringify(value)
}

const INSTANT = z.string().regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

const USER = z
  .strictObject({
    id: z.int().positive(),
    name: z
      .string()
      .regex(/^[^\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]{1,255}$/u)
      .refine(name => name === name.trim().normalize('NFC')),
    email: z.email().max(254),
    created_at: INSTANT,
    updated_at: INSTANT,
  })
  .refine(user => user.created_at <= user.updated_at)

const HEALTH = z.strictObject({ status: z.literal('ok') })

/** The `/openapi.json` that the service serves; other tests check its content. */
const DOCUMENT = z.looseObject({ openapi: z.string().startsWith('3.1.') })

const SUCCESS = z.union([
  DOCUMENT,
  z.array(USER),
  USER,
  HEALTH,
  z.strictObject({
    data: z.array(USER),
    page: z.int().positive().optional(),
    has_more: z.boolean(),
    total_count: z.int().nonnegative().optional(),
  }),
  z
    .object({ message: z.string(), version: z.string(), status: z.literal('ok') })
    .catchall(z.string().startsWith('/')),
])

const SENTENCE = z.string().min(1)

const { storage_damaged: _hidden, ...shown } = ERROR_KINDS

const REASON = z.enum(Object.keys(shown) as ErrorCode[])

const ERROR = z.strictObject({
  message: SENTENCE,
  resource: z.enum(['User', 'Request']),
  code: z.int(),
  status: z.literal(false),
  reason: REASON,
  // Not a record: zod leaves `__proto__` out of it, but a parameter may have this name.
  errors: z
    .custom<object>(
      errors =>
        z
          .array(z.array(SENTENCE).min(1))
          .min(1)
          .safeParse(Object.values(errors as object)).success,
    )
    .optional(),
})

const PROBLEM = z.strictObject({
  type: z.literal('about:blank'),
  title: SENTENCE,
  status: z.int(),
  detail: SENTENCE,
  instance: z.string().startsWith('/').optional(),
  reason: REASON,
  errors: z
    .array(
      z.union([
        z.strictObject({ detail: SENTENCE, pointer: z.string().startsWith('#/user') }),
        z.strictObject({ detail: SENTENCE, parameter: z.string() }),
      ]),
    )
    .min(1)
    .optional(),
})
