import type { Request } from 'express'
import { z } from 'zod'
import type { ZodOpenApiResponseObject } from 'zod-openapi'
import { type ErrorCode, type ErrorDetails, kindOf, ServiceError } from '../../errors.ts'
import { errorReply, phraseOf } from '../error-handler.ts'
import { JSON_TYPE, notAcceptable, PROBLEM_TYPE } from '../negotiation.ts'
import type { DescribedOperation, DocumentSettings } from './operation.ts'
import {
  COMMON_HEADERS,
  IDEMPOTENCY_KEY,
  IF_MATCH,
  PREFER,
  PREFERENCE_APPLIED,
  RETRY_AFTER,
} from './operation.ts'

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

/** Of 415: what is taken instead. */
const NOT_TAKEN_HEADERS = {
  'Accept-Patch': z.string().optional(),
  'Accept-Encoding': z.string().optional(),
}

const OF_IDEMPOTENCY = {
  idempotency_key_malformed: {},
  idempotency_key_in_use: {},
  idempotent_user_deleted: {},
  idempotency_key_reused: {},
}

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

/** The errors that an operation may answer, and what each says beyond its code in an example. */
function findRefusals(
  { path, action, isOpen, isUnfiltered, query, body, ...operation }: DescribedOperation,
  scopes: DocumentSettings['scopes'],
): ReadonlyMap<ErrorCode, ErrorDetails> {
  const { parameters = [], refusals = {}, produces = [JSON_TYPE] } = operation
  const needsKey = scopes !== undefined && !isOpen
  const errors = [{ field: 'unknown', at: { parameter: 'unknown' }, messages: ['is unknown'] }]
  const message = `The API key lacks the scope ${action && scopes?.[action]}`
  const found: readonly (Readonly<Partial<Record<ErrorCode, ErrorDetails>>> | false | undefined)[] =
    [
      query && { query_invalid: { errors } },
      body && { validation_failed: {}, body_malformed: {} },
      body && { media_type_unsupported: {}, encoding_unsupported: {} },
      parameters.includes(IF_MATCH) && { version_mismatch: {} },
      refusals,
      parameters.includes(IDEMPOTENCY_KEY) && OF_IDEMPOTENCY,
      action && { storage_unavailable: {} },
      path.includes('{') && { path_malformed: {} },
      produces.length > 0 && { not_acceptable: notAcceptable(produces).details },
      needsKey && { key_required: {} },
      needsKey && action && { scope_missing: { message } },
      !isUnfiltered && { host_not_allowed: {}, overloaded: {}, shutting_down: {} },
      !isUnfiltered && { blocked: {}, rate_limited: {} },
      { internal_error: {}, request_malformed: {}, request_timeout: {}, headers_too_large: {} },
      { body_too_large: {}, target_too_long: {}, scheme_not_allowed: {} },
      { transfer_coding_unsupported: {} },
    ]
  const entries = found.flatMap(details => Object.entries(details || {}))
  return new Map(entries as [ErrorCode, ErrorDetails][])
}

/**
 * Returns a function for the errors of an operation, by status: each response with its reasons, and an example of each. Equal
 * responses of several operations are one component of the document.
 */
export function createRefusals(scopes: DocumentSettings['scopes']) {
  const known = new Map<string, ZodOpenApiResponseObject>()

  return (operation: DescribedOperation): Record<number, ZodOpenApiResponseObject> => {
    const request = { path: operation.path.replace(/\{[^{}]*\}/, '1'), headers: {} } as Request
    const codes = findRefusals(operation, scopes)
    const byStatus = new Map<number, Refusal>()
    for (const [code, details] of codes) {
      const { message, about = message.replace(/\.?$/, '.') } = kindOf(code)
      const { status, body } = errorReply(new ServiceError(code, details), request)
      const { description, examples } = byStatus.get(status) ?? { description: '', examples: {} }
      byStatus.set(status, {
        description: `${description}- \`${code}\`: ${about}\n`,
        examples: { ...examples, [code]: { value: JSON.parse(String(body)) } },
      })
    }
    const responses = [...byStatus].map(([status, described]) => {
      const key = JSON.stringify([status, described])
      const response = known.get(key) ?? toResponse(operation, status, described)
      known.set(key, response)
      return [status, response] as const
    })
    return Object.fromEntries(responses)
  }
}

/** The errors of one status. */
interface Refusal {
  /** A list of the reasons, in Markdown. */
  readonly description: string
  /** By reason. */
  readonly examples: Readonly<Record<string, { readonly value: unknown }>>
}

function toResponse(
  { id, parameters }: DescribedOperation,
  status: number,
  { description, examples }: Refusal,
): ZodOpenApiResponseObject {
  const isAboutKeys = 'key_required' in examples || 'scope_missing' in examples
  return {
    id: `${phraseOf(status).replaceAll(/[^A-Za-z]/g, '')}_${id}`,
    description,
    headers: z.object({
      ...COMMON_HEADERS,
      ...(RETRIED.includes(status) && { 'Retry-After': RETRY_AFTER }),
      ...(status === 415 && NOT_TAKEN_HEADERS),
      ...(status === 422 &&
        parameters?.includes(PREFER) && { 'Preference-Applied': PREFERENCE_APPLIED }),
      ...(isAboutKeys && { 'WWW-Authenticate': z.string().optional() }),
    }),
    content: {
      [JSON_TYPE]: { schema: ERROR, examples },
      [PROBLEM_TYPE]: { schema: PROBLEM },
    },
  }
}
