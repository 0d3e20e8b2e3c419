import { STATUS_CODES } from 'node:http'
import { type ErrorCode, type ErrorDetails, ServiceError } from '../../errors.ts'
import { ERROR_KINDS, type ErrorKind } from '../error-kinds.ts'
import { errorReply } from '../error-replies.ts'
import { JSON_TYPE, PROBLEM_TYPE } from '../negotiation.ts'
import type { Answer, Example, Header } from '../operation.ts'
import {
  ALLOW,
  LIMIT_HEADERS,
  LOCATION,
  NO_STORE,
  REFUSING_LIMIT_HEADERS,
  RETRY_AFTER,
  TAKEN_HEADERS,
  WWW_AUTHENTICATE,
} from './described-headers.ts'
import { ERROR, PROBLEM } from './error-schemas.ts'
import { component, describedHere } from './references.ts'

/** The headers that only some errors have. `ERROR_KINDS` says which. */
const OWN_HEADERS: Readonly<Record<string, Header>> = {
  Allow: ALLOW,
  'Retry-After': RETRY_AFTER,
  'WWW-Authenticate': WWW_AUTHENTICATE,
  ...TAKEN_HEADERS,
  ...REFUSING_LIMIT_HEADERS,
}

/** Where an error occurs, for its example. */
export interface ErrorCase {
  readonly details: ErrorDetails
  readonly path: string
  readonly resource: string | undefined
}

export type ErrorCases = ReadonlyMap<ErrorCode, ErrorCase>

export interface RefusalsOptions {
  /** All errors of the interface. */
  readonly cases: ErrorCases
  /** Headers of every response. */
  readonly headers: Readonly<Record<string, Header>>
}

export interface Refusals {
  /** The responses with these codes, by status. */
  of(codes: readonly ErrorCode[]): Readonly<Record<number, Answer>>
  /** The response that a rule of the limits may give instead of 429. */
  readonly other: Answer
}

/** Makes one component for each error status. `errorReply` makes the examples, as it makes the real responses. */
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
  const { cases, headers } = options
  const name = (STATUS_CODES[status] ?? '').replaceAll(/[^A-Za-z]/g, '')
  return component('responses', name, {
    description: aboutAll(codes),
    headers: { ...headers, ...NO_STORE, ...LIMIT_HEADERS, ...ownHeaders(codes) },
    content: {
      [JSON_TYPE]: { schema: ERROR, examples: examplesOf(codes, cases) },
      [PROBLEM_TYPE]: { schema: PROBLEM, examples: examplesOf(codes, cases, PROBLEM_TYPE) },
    },
  })
}

function describeOther({ headers }: RefusalsOptions): Answer {
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
    reason: 'rate_limited',
  }
  const problem = {
    type: 'about:blank',
    title: 'Found',
    status: 302,
    detail: body.message,
    reason: body.reason,
  }
  return component('responses', 'Otherwise', {
    description:
      'What a rule of the limits may answer instead of 429, such as a redirect, with any status. ' +
      'If a program of the operator answers, headers and body may be any too.',
    headers: Object.fromEntries(optional),
    content: {
      [JSON_TYPE]: { schema: ERROR, examples: { redirect: { summary, value: body } } },
      [PROBLEM_TYPE]: { schema: PROBLEM, examples: { redirect: { summary, value: problem } } },
    },
  })
}

function ownHeaders(codes: readonly ErrorCode[]): Readonly<Record<string, Header>> {
  const entries = codes.flatMap(code => {
    const { headers = {}, givenHeaders = [], optionalHeaders = [] } = kindOf(code)
    const always = [...Object.keys(headers), ...givenHeaders]
    return [
      ...always.map(name => [name, OWN_HEADERS[name] as Header]),
      ...optionalHeaders.map(name => [name, { ...(OWN_HEADERS[name] as Header), required: false }]),
    ]
  })
  return Object.fromEntries(entries)
}

function kindOf(code: ErrorCode): ErrorKind {
  return ERROR_KINDS[code]
}

function aboutAll(codes: readonly ErrorCode[]): string {
  return codes.map(code => kindOf(code).about).join(' ')
}

function examplesOf(
  codes: readonly ErrorCode[],
  cases: ErrorCases,
  accept?: string,
): Readonly<Record<string, Example>> {
  return Object.fromEntries(
    codes.map(code => {
      const { message, example, hasNoTarget } = kindOf(code)
      const { details, path, resource } = cases.get(code) as ErrorCase
      const error = new ServiceError(code, { ...example, ...details })
      const context = hasNoTarget ? { accept } : { path, resource, accept }
      const { body = '' } = errorReply(error, context)
      return [code, { summary: message, value: JSON.parse(String(body)) }]
    }),
  )
}
