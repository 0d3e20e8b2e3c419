import { STATUS_CODES } from 'node:http'
import { type ErrorCode, type ErrorDetails, ServiceError } from '../errors.ts'
import {
  ALLOW,
  LIMIT_HEADERS,
  LOCATION,
  NO_STORE,
  REFUSING_LIMIT_HEADERS,
  RETRY_AFTER,
  TAKEN_HEADERS,
} from './described-headers.ts'
import { ERROR_KINDS, errorReply } from './error-replies.ts'
import { ERROR, PROBLEM } from './error-schemas.ts'
import { JSON_TYPE, PROBLEM_TYPE } from './negotiation.ts'
import { type Answer, component, describedHere, type Example, type Header } from './operation.ts'

/** What each refusal is about, for who reads which answers there are. */
const ABOUT = {
  request_malformed: 'The bytes that arrived are no HTTP request, or one without a single `Host`.',
  path_malformed: 'The path cannot be decoded.',
  body_malformed: 'The body is not JSON, not UTF-8, or not what `Content-Encoding` says.',
  query_invalid:
    'A query parameter is unknown, given twice, empty or malformed; `errors` names it.',
  idempotency_key_malformed: '`Idempotency-Key` is malformed or given twice.',
  blocked: 'A blocklist or a ban keeps the request or its client out.',
  path_not_found: 'There is no such path.',
  user_not_found: 'There is no such user.',
  method_not_allowed: 'The path is known, the method is not.',
  not_acceptable: '`Accept` allows nothing that can be answered.',
  request_timeout: 'The request took too long to arrive.',
  idempotency_key_in_use: 'A request with this `Idempotency-Key` is still running.',
  idempotent_user_deleted: 'The user that this `Idempotency-Key` made has been deleted.',
  version_mismatch: '`If-Match` names another version, or a weak one. Nothing was changed.',
  body_too_large: 'The body is too large, before or after inflating.',
  media_type_unsupported: 'The body is not declared as `application/json` in UTF-8.',
  encoding_unsupported: '`Content-Encoding` is unknown.',
  validation_failed: 'Fields are wrong; `errors` names each. Nothing was changed.',
  email_taken: 'Another user has this address.',
  idempotency_key_reused: '`Idempotency-Key` was used with another body.',
  rate_limited: 'A limit is exceeded.',
  headers_too_large: 'The request line and headers are too large.',
  internal_error: 'A fault of the service; its log has the detail.',
  storage_unavailable: 'The database cannot be read or written now. Nothing was changed.',
  overloaded: 'There is too much to do. Nothing was changed.',
  shutting_down: 'The service is about to stop.',
} as const satisfies Record<ErrorCode, string>

/** For codes that never come without them. */
const DETAILS: Readonly<Partial<Record<ErrorCode, ErrorDetails>>> = {
  blocked: { headers: { 'Retry-After': '1800' } },
  rate_limited: { violatedPolicies: ['signups'] },
}

/** These are found out before it is known what was asked for. */
const UNPLACED: readonly ErrorCode[] = ['request_malformed', 'request_timeout', 'headers_too_large']

const OPTIONAL_RETRY_AFTER = component('headers', 'RetryAfterBan', {
  ...RETRY_AFTER,
  required: false,
  description: 'After how many seconds a ban ends.',
})

/** Headers of one status. */
const OWN_HEADERS: Readonly<Record<number, Readonly<Record<string, Header>>>> = {
  403: { 'Retry-After': OPTIONAL_RETRY_AFTER },
  405: { Allow: ALLOW },
  409: { 'Retry-After': RETRY_AFTER },
  415: TAKEN_HEADERS,
  429: { 'Retry-After': RETRY_AFTER, ...REFUSING_LIMIT_HEADERS },
  503: { 'Retry-After': RETRY_AFTER },
}

/** How an error comes about, for its example. */
export interface ErrorCase {
  readonly details: ErrorDetails
  readonly path: string
}

export type ErrorCases = ReadonlyMap<ErrorCode, ErrorCase>

export interface RefusalsOptions {
  /** All that the interface knows. */
  readonly cases: ErrorCases
  /** On every answer. */
  readonly headers: Readonly<Record<string, Header>>
  /** An answer to HEAD has none. */
  readonly hasBody: boolean
}

export interface Refusals {
  /** The answers to these codes, by status. */
  of(codes: readonly ErrorCode[]): Readonly<Record<number, Answer>>
  /** What a rule of the limits answers in place of 429, if it says so. */
  readonly other: Answer
}

/** One component for each status that refuses. Examples are made by what answers errors. */
export function describeRefusals(options: RefusalsOptions): Refusals {
  const known = [...options.cases.keys()]
  const statuses = [...new Set(known.map(code => ERROR_KINDS[code].status))]
  const all = statuses.map(status => {
    const codes = known.filter(code => ERROR_KINDS[code].status === status)
    return { status, codes, answer: describeStatus(status, codes, options) }
  })
  return {
    of: wanted => {
      const answers = all.flatMap(({ status, codes, answer }) => {
        const here = codes.filter(code => wanted.includes(code))
        if (here.length === 0) return []
        const isAll = here.length === codes.length
        return [[status, isAll ? answer : describedHere(answer, aboutAll(here))]]
      })
      return Object.fromEntries(answers)
    },
    other: describeOther(options),
  }
}

function describeStatus(status: number, codes: readonly ErrorCode[], options: RefusalsOptions) {
  const { cases, headers, hasBody } = options
  const name = (STATUS_CODES[status] ?? '').replaceAll(/[^A-Za-z]/g, '')
  return component('responses', hasBody ? name : `${name}WithoutBody`, {
    description: aboutAll(codes),
    headers: { ...headers, ...NO_STORE, ...LIMIT_HEADERS, ...OWN_HEADERS[status] },
    ...(hasBody && {
      content: {
        [JSON_TYPE]: { schema: ERROR, examples: examplesOf(codes, cases) },
        [PROBLEM_TYPE]: { schema: PROBLEM, examples: examplesOf(codes, cases, PROBLEM_TYPE) },
      },
    }),
  })
}

function describeOther({ headers, hasBody }: RefusalsOptions): Answer {
  const own = { ...headers, ...NO_STORE, ...REFUSING_LIMIT_HEADERS, 'Retry-After': RETRY_AFTER }
  const optional = Object.entries({ ...own, Location: LOCATION }).map(([name, header]) => [
    name,
    { ...header, required: false },
  ])
  const summary = 'A redirect with an alert'
  const body = {
    message: 'Too many signups on domain!',
    resource: 'User',
    code: 302,
    status: false,
  }
  const problem = { type: 'about:blank', title: 'Found', status: 302, detail: body.message }
  return component('responses', hasBody ? 'Otherwise' : 'OtherwiseWithoutBody', {
    description:
      'What a rule of the limits answers instead of 429 where it says so, such as a redirect: any status. ' +
      'Where a program of the operator answers, any headers and body too.',
    headers: Object.fromEntries(optional),
    ...(hasBody && {
      content: {
        [JSON_TYPE]: { schema: ERROR, examples: { redirect: { summary, value: body } } },
        [PROBLEM_TYPE]: { schema: PROBLEM, examples: { redirect: { summary, value: problem } } },
      },
    }),
  })
}

function aboutAll(codes: readonly ErrorCode[]): string {
  return codes.map(code => ABOUT[code]).join(' ')
}

function examplesOf(
  codes: readonly ErrorCode[],
  cases: ErrorCases,
  accept?: string,
): Readonly<Record<string, Example>> {
  return Object.fromEntries(
    codes.map(code => {
      const { details, path } = cases.get(code) as ErrorCase
      const error = new ServiceError(code, { ...DETAILS[code], ...details })
      const { body = '' } = errorReply(
        error,
        UNPLACED.includes(code) ? { accept } : { path, accept },
      )
      return [code, { summary: ERROR_KINDS[code].message, value: JSON.parse(String(body)) }]
    }),
  )
}
