import { z } from 'zod'
import type { ZodOpenApiResponseObject } from 'zod-openapi'
import { type ErrorCode, kindOf } from '../../errors.ts'
import { phraseOf } from '../error-handler.ts'
import { JSON_TYPE, PROBLEM_TYPE } from '../negotiation.ts'
import type { DescribedOperation } from './operation.ts'
import { COMMON_HEADERS, IDEMPOTENCY_KEY, IF_MATCH, RETRY_AFTER } from './operation.ts'

const STATUS = z.int().min(100).max(599)

/** No enum: a client must be ready for the codes of later releases. */
const REASON = z.string().describe('What happened, for programs: a stable name.')

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
  .meta({ id: 'Error', description: 'What went wrong.' })

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
  .meta({ id: 'Problem', description: 'What went wrong, in the format of RFC 9457.' })

/** Both forms of an error. */
const ERROR_CONTENT = { [JSON_TYPE]: { schema: ERROR }, [PROBLEM_TYPE]: { schema: PROBLEM } }

/** Statuses that may come with `Retry-After`. */
const RETRIED = [403, 409, 429, 503]

const OF_IDEMPOTENCY = [
  'idempotency_key_malformed',
  'idempotency_key_in_use',
  'idempotent_user_deleted',
  'idempotency_key_reused',
] as const

/** What a rule of the limits may answer instead of 429. */
export const OTHERWISE: ZodOpenApiResponseObject = {
  id: 'Otherwise',
  description:
    'What a rule of the limits may answer instead of 429 (`rate_limited`), such as a redirect, with any status. ' +
    'If a program of the operator answers, headers and body may be any too.',
  headers: z.object({
    ...COMMON_HEADERS,
    'Retry-After': RETRY_AFTER,
    Location: z.string().optional().describe('Where a redirect leads.'),
  }),
  content: ERROR_CONTENT,
}

/** The errors that an operation may answer. */
export function findRefusals(operation: DescribedOperation, needsKeys: boolean): ErrorCode[] {
  const { path, action, isOpen, isUnfiltered, produces, query, body } = operation
  const { parameters = [], refusals = [] } = operation
  const codes: ErrorCode[] = []
  if (query) codes.push('query_invalid')
  if (body) codes.push('validation_failed', 'body_malformed')
  if (body) codes.push('media_type_unsupported', 'encoding_unsupported')
  if (parameters.includes(IF_MATCH)) codes.push('version_mismatch')
  if (parameters.includes(IDEMPOTENCY_KEY)) codes.push(...OF_IDEMPOTENCY)
  if (action) codes.push('storage_unavailable')
  if (path.includes('{')) codes.push('path_malformed')
  if (produces?.length !== 0) codes.push('not_acceptable')
  if (needsKeys && !isOpen) codes.push('key_required', 'scope_missing')
  if (!isUnfiltered) codes.push('host_not_allowed', 'overloaded', 'shutting_down')
  if (!isUnfiltered) codes.push('blocked', 'rate_limited')
  codes.push(...refusals, 'internal_error')
  codes.push('request_malformed', 'request_timeout', 'headers_too_large', 'body_too_large')
  codes.push('target_too_long', 'scheme_not_allowed', 'transfer_coding_unsupported')
  return codes
}

/** The responses with these errors, by status: each with its reasons. */
export function describeRefusals(
  codes: ReadonlySet<ErrorCode>,
): ReadonlyMap<number, ZodOpenApiResponseObject> {
  const responses = new Map<number, ZodOpenApiResponseObject>()
  for (const code of codes) {
    const { status, message, about = message.replace(/\.?$/, '.') } = kindOf(code)
    const { description = '' } = responses.get(status) ?? {}
    const isAboutKeys = codes.has('key_required') && (status === 401 || status === 403)
    responses.set(status, {
      id: phraseOf(status).replaceAll(/[^A-Za-z]/g, ''),
      description: `${description}- \`${code}\`: ${about}\n`,
      headers: z.object({
        ...COMMON_HEADERS,
        ...(RETRIED.includes(status) && { 'Retry-After': RETRY_AFTER }),
        ...(status === 415 && { 'Accept-Patch': z.string().optional() }),
        ...(isAboutKeys && { 'WWW-Authenticate': z.string().optional() }),
      }),
      content: ERROR_CONTENT,
    })
  }
  return responses
}
