import { STATUS_CODES } from 'node:http'
import { z } from 'zod'
import type { ZodOpenApiResponseObject, ZodOpenApiResponsesObject } from 'zod-openapi'
import type { ErrorCode } from '../../errors.ts'
import { ERROR_KINDS, type ErrorKind } from '../error-kinds.ts'
import { JSON_TYPE, PROBLEM_TYPE } from '../negotiation.ts'
import {
  COMMON_HEADERS,
  LIMIT_HEADERS,
  REDIRECT,
  RETRY_AFTER,
  WWW_AUTHENTICATE,
} from './headers.ts'
import type { DescribedOperation } from './operation.ts'

const STATUS = z.int().min(100).max(599)

/** No enum: a client must be ready for the codes of later releases. */
const REASON = z.string().describe('What happened, for programs: a stable name.')

/** The format of every error. */
const ERROR = z
  .object({
    message: z.string().describe('For people.'),
    resource: z.enum(['User', 'Request']).describe('`User` for `/users` and every path below it.'),
    code: STATUS.describe('The status.'),
    status: z.literal(false).describe('Always false: the request failed.'),
    reason: REASON,
    errors: z
      .record(z.string(), z.array(z.string()).min(1))
      .optional()
      .describe('Everything that is wrong with each field or parameter.'),
  })
  .meta({
    id: 'Error',
    description: 'What went wrong.',
    examples: [
      {
        ...{ message: 'Validation failed', resource: 'User', code: 422, status: false },
        ...{ reason: 'validation_failed', errors: { email: ['is invalid'] } },
      },
    ],
  })

const PROBLEM = z
  .object({
    type: z.string().describe('The kind of problem; `about:blank` if the status says it.'),
    title: z.string(),
    status: STATUS,
    detail: z.string().describe('For people.'),
    instance: z.string().optional().describe('The path.'),
    reason: REASON,
    'violated-policies': z.array(z.string()).optional().describe('The limits that were exceeded.'),
    errors: z
      .array(
        z.object({
          detail: z.string(),
          pointer: z.string().optional().describe('A JSON pointer into the body, after a #.'),
          parameter: z.string().optional().describe('The query parameter.'),
        }),
      )
      .optional(),
  })
  .meta({ id: 'Problem', description: 'The same by RFC 9457, for clients that prefer it.' })

const CONTENT = { [JSON_TYPE]: { schema: ERROR }, [PROBLEM_TYPE]: { schema: PROBLEM } }

const OF_ANY = [
  ...(['request_malformed', 'request_timeout', 'headers_too_large'] as const),
  ...(['body_too_large', 'internal_error'] as const),
]

/** Errors of the filter of the limits, and of what stands before it. */
const OF_FILTERED = [
  ...(['host_not_allowed', 'blocked', 'rate_limited', 'overloaded', 'shutting_down'] as const),
]

const OF_KEYS = ['key_required', 'scope_missing'] as const

const OF_BODIES = ['body_malformed', 'media_type_unsupported', 'encoding_unsupported'] as const

/** Statuses that may come with `Retry-After`. */
const RETRIED = [403, 409, 429, 503]

/** The errors that an operation may answer. */
export function findRefusals(operation: DescribedOperation, needsKeys: boolean): ErrorCode[] {
  const { path, action, isOpen, isUnfiltered, produces, body, refusals = [] } = operation
  return [
    ...OF_ANY,
    ...(isUnfiltered ? [] : OF_FILTERED),
    ...(needsKeys && !isOpen ? OF_KEYS : []),
    ...(path.includes('{') ? (['path_malformed'] as const) : []),
    ...(produces?.length === 0 ? [] : (['not_acceptable'] as const)),
    ...(body === undefined ? [] : OF_BODIES),
    ...(action === undefined ? [] : (['storage_unavailable'] as const)),
    ...refusals,
  ]
}

/**
 * Describes each status of these errors once, with all its reasons. Returns a function that picks the responses for some of
 * the errors, by status.
 */
export function describeRefusals(codes: ReadonlySet<ErrorCode>) {
  const reasons = new Map<number, string[]>()
  for (const code of codes) {
    const { status, message, about = `${message}.` }: ErrorKind = ERROR_KINDS[code]
    reasons.set(status, [...(reasons.get(status) ?? []), `- \`${code}\`: ${about}`])
  }
  const responses = new Map<number, ZodOpenApiResponseObject>()
  for (const [status, lines] of reasons) {
    const needsKey = codes.has('key_required') && [401, 403].includes(status)
    responses.set(status, {
      id: `${STATUS_CODES[status]}`.replaceAll(/[^A-Za-z]/g, ''),
      description: lines.join('\n'),
      headers: z.object({
        ...{ ...COMMON_HEADERS, ...LIMIT_HEADERS },
        ...(RETRIED.includes(status) && { 'Retry-After': RETRY_AFTER }),
        ...(needsKey && { 'WWW-Authenticate': WWW_AUTHENTICATE }),
      }),
      content: CONTENT,
    })
  }
  return (own: readonly ErrorCode[]): ZodOpenApiResponsesObject => ({
    ...Object.fromEntries(
      own.map(code => [ERROR_KINDS[code].status, responses.get(ERROR_KINDS[code].status)]),
    ),
    ...(own.includes('rate_limited') && { default: OTHERWISE }),
  })
}

/** What a rule of the limits may answer instead of 429. */
const OTHERWISE: ZodOpenApiResponseObject = {
  id: 'Otherwise',
  description:
    'What a rule of the limits may answer instead of 429, such as a redirect, with any status. ' +
    'If a program of the operator answers, headers and body may be any too.',
  headers: z.object({
    ...{ ...COMMON_HEADERS, ...LIMIT_HEADERS },
    ...{ 'Retry-After': RETRY_AFTER, Location: REDIRECT },
  }),
  content: CONTENT,
}
