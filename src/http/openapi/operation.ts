import { z } from 'zod'
import type { ZodOpenApiResponseObject } from 'zod-openapi'
import type { ErrorCode, ErrorDetails } from '../../errors.ts'
import type { Action } from '../actions.ts'

export interface DocumentSettings {
  readonly version: string
  /** The URL of the service in the document. */
  readonly baseUrl: string
  readonly bodyLimitBytes: number
  /** The scope of an API key that each action needs; `undefined` if no key is required. */
  readonly scopes: Readonly<Record<Action, string>> | undefined
}

/** One operation of the service: where it is, and what it takes and answers. */
export interface DescribedOperation {
  /** What generated clients call it. */
  readonly id: string
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** With parameters in braces, as in `/users/{id}`. */
  readonly path: string
  /** What limits and scopes call it; left out if neither applies. */
  readonly action?: Action
  /** Whether it needs no API key, even if keys are required. */
  readonly isOpen?: true
  /** Whether it is answered before the limits and everything else that may deny a request. */
  readonly isUnfiltered?: true
  /** Media types of its responses; JSON if left out. With `[]` the Accept header is ignored. */
  readonly produces?: readonly string[]
  /** The heading under which it stands. */
  readonly tag: { readonly name: string; readonly description: string }
  /** A few words. */
  readonly summary: string
  /** Sentences, in Markdown. */
  readonly description: string
  /** In the path and in headers. */
  readonly parameters?: readonly z.ZodType[]
  /** Query parameters. They are described by the values that their texts become. */
  readonly query?: z.ZodObject
  /** Of a JSON body. Without it, none is read. */
  readonly body?: z.ZodType
  /** A body that works on a service with the users of the README. */
  readonly example?: unknown
  /** Responses that are no errors, by status. `headers` are added to those of every response. */
  readonly answers: Readonly<Record<number, Answer>>
  /** Errors besides those of every similar operation, each with what it says beyond its code, as in an example. */
  readonly refusals?: Readonly<Partial<Record<ErrorCode, ErrorDetails>>>
}

export type Answer = Omit<ZodOpenApiResponseObject, 'headers'> & { readonly headers?: Schemas }

/** Schemas by name. */
export type Schemas = Readonly<Record<string, z.ZodType>>

export const ETAG = header(
  'ETag',
  'The version in the response, for `If-None-Match` and `If-Match`.',
  z.string().regex(/^"[!#-~]+"$/),
)

export const RETRY_AFTER = header(
  'RetryAfter',
  'Seconds to wait before a retry.',
  z.int().min(0).optional(),
)

/** On every response, the limits where one counted the request. */
export const COMMON_HEADERS: Schemas = {
  'X-Request-Id': header(
    'XRequestId',
    "The id of the request in the log of the service: the client's own, or a new one.",
    z.string().regex(/^[A-Za-z0-9._-]{1,128}$/),
  ),
  RateLimit: header(
    'RateLimit',
    'The limits that counted the request: `r` requests are left for `t` seconds.',
    z
      .string()
      .regex(/^".*"; r=[0-9]+; t=[0-9]+/)
      .optional(),
  ),
  'RateLimit-Policy': header(
    'RateLimitPolicy',
    'The limits that counted the request: `q` requests are allowed in `w` seconds.',
    z
      .string()
      .regex(/^".*"; q=[0-9]+; w=[0-9]+; pk=:[A-Za-z0-9+/=]+:/)
      .optional(),
  ),
}

export const IF_NONE_MATCH = requestHeader(
  'If-None-Match',
  'Entity tags that the client has, or `*`. If one of them is current, the response to GET is 304, to others 412.',
)

export const IF_MATCH = requestHeader(
  'If-Match',
  'Entity tags, one of which must be that of the current version, or `*`; otherwise the response is 412. ' +
    'Weak tags never match.',
)

export const X_REQUEST_ID = requestHeader(
  'X-Request-Id',
  'The id of the request, for the log and the response: 1 to 128 of `A-Z a-z 0-9 . _ -`. ' +
    'Anything else is ignored.',
)

export const IDEMPOTENCY_KEY = requestHeader(
  'Idempotency-Key',
  'A key that nobody can guess, such as a UUID: 1 to 255 visible characters, bare or as a quoted string. ' +
    'For 24 hours the same key and body get the first 201 again and create nothing.',
  // Without a pattern, which tools would make keys from that nobody can read.
  z
    .string()
    .min(1)
    .meta({ examples: ['0b5d6a1e-6f2c-4c1e-9d3b-8a7f2e4c5d60'] }),
)

export const PREFER = requestHeader(
  'Prefer',
  '`handling=strict` rejects what is ignored otherwise: attributes that no user has, and keys beside the user.',
)

export const PREFERENCE_APPLIED = header(
  'PreferenceApplied',
  'The preference that was obeyed.',
  z.literal('handling=strict').optional(),
)

/** A header of many responses, which the document defines once. One with an optional schema may be missing. */
function header(id: string, description: string, schema: z.ZodType) {
  return schema.meta({ header: { id, description } })
}

/** A request header. One with an example is filled in and sent by tools, such as Swagger UI, Postman and Bruno. */
function requestHeader(name: string, description: string, schema: z.ZodType = z.string()) {
  const id = name.replaceAll('-', '')
  return schema.optional().meta({ param: { in: 'header', name, id, description } })
}
