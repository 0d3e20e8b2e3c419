import { STATUS_CODES } from 'node:http'
import { ERRORS, type ErrorCode, type ErrorDetails, kindOf, ServiceError } from '../../errors.ts'
import { errorReply } from '../error-handler.ts'
import { JSON_TYPE, PROBLEM_TYPE } from '../negotiation.ts'
import type { Answer, Example, Header } from '../operation.ts'
import {
  COMMON_HEADERS,
  LIMIT_HEADERS,
  LOCATION,
  RETRY_AFTER,
  WWW_AUTHENTICATE,
} from './described-headers.ts'
import { ERROR, PROBLEM } from './error-schemas.ts'
import { component } from './references.ts'

/** The headers that only some errors have. `ERRORS` says which. */
const OWN_HEADERS: Readonly<Record<string, Header>> = {
  'Retry-After': RETRY_AFTER,
  'WWW-Authenticate': WWW_AUTHENTICATE,
}

/** Where an error occurs, for its example. */
export interface ErrorCase {
  readonly details: ErrorDetails
  readonly path: string
  readonly resource: string | undefined
}

export type ErrorCases = ReadonlyMap<ErrorCode, ErrorCase>

export interface Refusals {
  /** The responses with these codes, by status. */
  of(codes: readonly ErrorCode[]): Readonly<Record<number, Answer>>
  /** The response that a rule of the limits may give instead of 429. */
  readonly other: Answer
}

/**
 * Makes one component for each error status, with all errors of the interface. `errorReply` makes the examples, as it makes
 * the real responses.
 */
export function describeRefusals(cases: ErrorCases): Refusals {
  const answers = new Map<number, Answer>()
  for (const code of cases.keys()) {
    const { status } = ERRORS[code]
    if (!answers.has(status)) answers.set(status, describeStatus(status, cases))
  }
  return {
    of: codes => {
      const statuses = codes.map(code => ERRORS[code].status)
      return Object.fromEntries(statuses.map(status => [status, answers.get(status) as Answer]))
    },
    other: describeOther(),
  }
}

function describeStatus(status: number, cases: ErrorCases): Answer {
  const codes = [...cases.keys()].filter(code => ERRORS[code].status === status)
  const abouts = codes.map(kindOf).map(({ message, about = `${message}.` }) => about)
  const name = (STATUS_CODES[status] ?? '').replaceAll(/[^A-Za-z]/g, '')
  return component('responses', name, {
    description: abouts.join(' '),
    headers: { ...COMMON_HEADERS, ...LIMIT_HEADERS, ...ownHeaders(codes) },
    content: {
      [JSON_TYPE]: { schema: ERROR, examples: examplesOf(codes, cases) },
      [PROBLEM_TYPE]: { schema: PROBLEM, examples: examplesOf(codes, cases, PROBLEM_TYPE) },
    },
  })
}

function describeOther(): Answer {
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
    headers: {
      ...COMMON_HEADERS,
      ...LIMIT_HEADERS,
      'Retry-After': RETRY_AFTER,
      Location: { ...LOCATION, description: 'Where a redirect leads.', required: false },
    },
    content: {
      [JSON_TYPE]: { schema: ERROR, examples: { redirect: { summary, value: body } } },
      [PROBLEM_TYPE]: { schema: PROBLEM, examples: { redirect: { summary, value: problem } } },
    },
  })
}

function ownHeaders(codes: readonly ErrorCode[]): Readonly<Record<string, Header>> {
  const names = codes
    .map(kindOf)
    .flatMap(({ headers = {}, ownHeaders = [] }) => [...Object.keys(headers), ...ownHeaders])
  return Object.fromEntries(Object.entries(OWN_HEADERS).filter(([name]) => names.includes(name)))
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
