import { z } from 'zod'
import { DECOMPRESSORS } from '../content-codings.ts'
import type { Schemas } from './operation.ts'

export const ETAG = header(z.string().regex(/^"[!#-~]+"$/), {
  id: 'ETag',
  description: 'The version in the response, for `If-None-Match` and `If-Match`.',
})

export const RETRY_AFTER = header(z.int().min(0).optional(), {
  id: 'RetryAfter',
  description: 'How many seconds to wait before a retry.',
})

export const REDIRECT = header(z.string().optional(), {
  id: 'Redirect',
  description: 'Where a redirect leads.',
})

export const WWW_AUTHENTICATE = header(z.string().regex(/^Bearer/).optional(), {
  id: 'WwwAuthenticate',
  description: 'How to send an API key, and the scope that a key lacks.',
})

/** On every response. */
export const COMMON_HEADERS: Schemas = {
  'X-Request-Id': header(z.string().regex(/^[A-Za-z0-9._-]{1,128}$/), {
    id: 'XRequestId',
    description: "The id of the request in the log of the service: the client's own, or a new one.",
  }),
}

/** On responses to requests that a limit has counted. */
export const LIMIT_HEADERS: Schemas = {
  RateLimit: header(optionalText(/^".*"; r=[0-9]+; t=[0-9]+/), {
    id: 'RateLimit',
    description: 'Of each limit that counted the request: requests left, in how many seconds.',
  }),
  'RateLimit-Policy': header(optionalText(/^".*"; q=[0-9]+; w=[0-9]+; pk=:[A-Za-z0-9+/=]+:/), {
    id: 'RateLimitPolicy',
    description: 'Of each limit that counted the request: requests allowed, in how many seconds.',
  }),
}

export const IF_NONE_MATCH = requestHeader('If-None-Match', {
  description:
    'Entity tags that the client has, or `*`. If one of them is current, the response is 304.',
})

export const IF_MATCH = requestHeader('If-Match', {
  description:
    'Entity tags, one of which must be that of the current version, or `*`; otherwise 412 and no change. ' +
    'Weak tags never match.',
})

export const X_REQUEST_ID = requestHeader('X-Request-Id', {
  description:
    'The id of the request, for the log and the response: 1 to 128 of `A-Z a-z 0-9 . _ -`. ' +
    'Anything else is ignored.',
})

export const CONTENT_ENCODING = requestHeader('Content-Encoding', {
  description: 'The compression of the body.',
  schema: z.enum([...DECOMPRESSORS.keys(), 'identity']),
})

export const IDEMPOTENCY_KEY = requestHeader('Idempotency-Key', {
  description:
    'A key that nobody can guess, such as a UUID: 1 to 255 visible characters, bare or as a quoted string. ' +
    'For 24 hours the same key and body get the first 201 again and create nothing.',
  schema: z.string().regex(/^(?:[!#-~][!-~]{0,254}|"(?:[!#-[\]-~]|\\["\\]){1,255}")$/),
})

/** A response header, which the document defines once, under its id. One that is optional may be missing. */
export function header(
  schema: z.ZodType,
  described: { readonly id: string; readonly description: string },
): z.ZodType {
  return schema.meta({ header: described })
}

/** A request header, which the document defines once. Without examples: Swagger UI would fill them in and send them. */
function requestHeader(
  name: string,
  { description, schema = z.string() }: { description: string; schema?: z.ZodType },
): z.ZodType {
  const id = name.replaceAll('-', '')
  return schema.optional().meta({ param: { in: 'header', name, id, description } })
}

function optionalText(pattern: RegExp): z.ZodType {
  return z.string().regex(pattern).optional()
}
