import { ACCEPT_ENCODING, DECOMPRESSORS } from '../content-codings.ts'
import type { Header, Parameter } from '../operation.ts'
import { fixedHeaders } from '../reply.ts'
import { component } from './references.ts'

const ENTITY_TAG = { type: 'string', pattern: '^"[!#-~]+"$' }

const A_VERSION = '"2026-01-31T12:00:00.000Z"'

const SECONDS = { type: 'integer', minimum: 0 }

/** Headers of responses, by their name. */
export const ETAG = header('ETag', {
  description: 'The version in the response, for `If-None-Match` and `If-Match`.',
  required: true,
  schema: ENTITY_TAG,
  example: A_VERSION,
})

/** Not a component: linters would report it as unused, because only an extension uses it. */
export const ALLOW: Header = {
  description: 'The methods of the path.',
  required: true,
  schema: { type: 'string', pattern: '^[A-Z]+(, [A-Z]+)*$' },
  example: 'GET, HEAD, POST, OPTIONS',
}

export const LOCATION = header('Location', {
  description: 'The path of the user.',
  required: true,
  schema: { type: 'string', format: 'uri-reference' },
  example: '/users/1',
})

export const RETRY_AFTER = header('RetryAfter', {
  description: 'How many seconds to wait before a retry.',
  required: true,
  schema: SECONDS,
  example: 30,
})

/** Not required: of the errors with one status, only some may be about API keys. */
export const WWW_AUTHENTICATE = header('WwwAuthenticate', {
  description: 'How to send an API key, and the scope that a key lacks.',
  schema: { type: 'string', pattern: '^Bearer( error="insufficient_scope", scope="[a-z:]+")?$' },
  example: 'Bearer',
})

/** On every response; `reply.ts` writes the values. */
export const FIXED_HEADERS: Readonly<Record<string, Header>> = {
  'X-Request-Id': header('XRequestId', {
    description: "The id of the request in the log of the service: the client's own, or a new one.",
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
    example: '5f0c1d1e-8f0b-4f43-9f6e-2f9f3c0a7b11',
  }),
  'Cache-Control': fixed(
    'CacheControl',
    'Cache-Control',
    'Users are personal data: only a private cache may store them, and must revalidate them each time.',
  ),
  Vary: header('Vary', {
    description: 'The request headers on which the response depends.',
    required: true,
    schema: { type: 'string', pattern: '^Accept(, [A-Za-z-]+)*$' },
    example: 'Accept',
  }),
  'X-Content-Type-Options': fixed(
    'XContentTypeOptions',
    'X-Content-Type-Options',
    'Browsers must not guess another Content-Type.',
  ),
  'Content-Security-Policy': fixed(
    'ContentSecurityPolicy',
    'Content-Security-Policy',
    'Browsers may show the response, but load and run nothing.',
  ),
}

/** Replaces the fixed one on errors and on responses that are true only for a moment. */
export const NO_STORE = {
  'Cache-Control': header('NoStore', {
    description: 'No cache may store the response.',
    required: true,
    schema: { type: 'string', const: 'no-store' },
    example: 'no-store',
  }),
}

const RATE_LIMIT = {
  description:
    'The limits that counted the request: how many requests are left, and for how many seconds.',
  schema: { type: 'string', pattern: '^".*"; r=[0-9]+; t=[0-9]+' },
  example: '"signups"; r=4; t=60',
}

const RATE_LIMIT_POLICY = {
  description:
    'The limits that counted the request: how many requests are allowed in how many seconds.',
  schema: { type: 'string', pattern: '^".*"; q=[0-9]+; w=[0-9]+; pk=:[A-Za-z0-9+/=]+:' },
  example: '"signups"; q=5; w=60; pk=:MTJjYTE3Yjk4YTc4:',
}

/** On responses to requests that a route limit has counted. */
export const LIMIT_HEADERS: Readonly<Record<string, Header>> = {
  RateLimit: header('RateLimit', RATE_LIMIT),
  'RateLimit-Policy': header('RateLimitPolicy', RATE_LIMIT_POLICY),
}

/** On responses to requests that a limit has denied. */
export const REFUSING_LIMIT_HEADERS: Readonly<Record<string, Header>> = {
  RateLimit: header('RateLimitReached', { ...RATE_LIMIT, required: true }),
  'RateLimit-Policy': header('RateLimitPolicyReached', { ...RATE_LIMIT_POLICY, required: true }),
}

/** On responses to a body of another type or encoding than the service takes. */
export const TAKEN_HEADERS: Readonly<Record<string, Header>> = {
  Accept: header('Accept', {
    description: 'The media type to send, if it was wrong.',
    schema: { type: 'string', const: 'application/json' },
    example: 'application/json',
  }),
  'Accept-Encoding': header('AcceptEncoding', {
    description: 'The content encodings that are known, if it was unknown.',
    schema: { type: 'string', const: ACCEPT_ENCODING },
    example: ACCEPT_ENCODING,
  }),
}

/** For pages of other origins, if the operator allows them. */
export const CORS_HEADERS: Readonly<Record<string, Header>> = {
  'Access-Control-Allow-Origin': header('AccessControlAllowOrigin', {
    description: 'The origin whose pages may read the response, or `*` for all.',
    schema: { type: 'string' },
    example: 'https://app.example.com',
  }),
  'Access-Control-Expose-Headers': header('AccessControlExposeHeaders', {
    description: 'The headers that such a page may read.',
    schema: { type: 'string' },
    example: 'ETag,Link,Location',
  }),
}

/** Also on responses to OPTIONS. */
export const PREFLIGHT_HEADERS: Readonly<Record<string, Header>> = {
  'Access-Control-Allow-Methods': header('AccessControlAllowMethods', {
    description: 'The methods that a page of another origin may use.',
    schema: { type: 'string' },
    example: 'GET,HEAD,PUT,PATCH,POST,DELETE',
  }),
  'Access-Control-Allow-Headers': header('AccessControlAllowHeaders', {
    description: 'The headers that a page of another origin may send: those it asked for.',
    schema: { type: 'string' },
    example: 'content-type,if-match',
  }),
  'Access-Control-Max-Age': header('AccessControlMaxAge', {
    description: 'For how many seconds a browser may remember this response.',
    schema: SECONDS,
    example: 600,
  }),
}

/** Headers of requests. */
export const IF_NONE_MATCH = requestHeader('IfNoneMatch', {
  name: 'If-None-Match',
  description:
    'Entity tags that the client has, or `*`. If one of them is current, the response is 304.',
  example: A_VERSION,
})

export const IF_MATCH = requestHeader('IfMatch', {
  name: 'If-Match',
  description:
    'Entity tags, one of which must be that of the current version, or `*`; otherwise 412 and no change. ' +
    'Weak tags never match.',
  example: A_VERSION,
})

export const X_REQUEST_ID = requestHeader('RequestId', {
  name: 'X-Request-Id',
  description:
    'The id of the request, for the log and the response: 1 to 128 of `A-Z a-z 0-9 . _ -`. ' +
    'Anything else is ignored.',
  example: 'order-4711.retry-2',
})

export const CONTENT_ENCODING = component('parameters', 'ContentEncoding', {
  name: 'Content-Encoding',
  in: 'header',
  description: 'The compression of the body.',
  schema: { type: 'string', enum: [...DECOMPRESSORS.keys(), 'identity'] },
  example: 'gzip',
} as const)

export const IDEMPOTENCY_KEY = component('parameters', 'IdempotencyKey', {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'A key that nobody can guess, such as a UUID: 1 to 255 visible characters, bare or as a quoted string. ' +
    'For 24 hours the same key and body get the first 201 again and create nothing.',
  schema: {
    type: 'string',
    pattern: '^(?:[!#-~][!-~]{0,254}|"(?:[!#-\\[\\]-~]|\\\\["\\\\]){1,255}")$',
  },
  example: '0b5d6a1e-6f2c-4c1e-9d3b-8a7f2e4c5d60',
} as const)

/** A header that the document defines once, under `components` by this name. */
export function header(name: string, described: Header): Header {
  return component('headers', name, described)
}

function fixed(name: string, field: string, description: string): Header {
  const value = fixedHeaders('')[field]
  const schema = { type: 'string', const: value }
  return header(name, { description, required: true, schema, example: value })
}

function requestHeader(
  place: string,
  described: { readonly name: string; readonly description: string; readonly example: string },
): Parameter {
  return component('parameters', place, {
    ...described,
    in: 'header',
    schema: { type: 'string' },
  } as const)
}
