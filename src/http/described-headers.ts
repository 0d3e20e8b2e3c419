import { component, type Header, type Parameter } from './operation.ts'
import { fixedHeaders } from './reply.ts'

const ENTITY_TAG = { type: 'string', pattern: '^"[!#-~]+"$' }

const A_VERSION = '"2026-01-31T12:00:00.000Z"'

const SECONDS = { type: 'integer', minimum: 0 }

/** Headers of answers, by their name. */
export const ETAG = header('ETag', {
  description: 'The version of what was answered, for `If-None-Match` and `If-Match`.',
  required: true,
  schema: ENTITY_TAG,
  example: A_VERSION,
})

export const ALLOW = header('Allow', {
  description: 'The methods that the path knows.',
  required: true,
  schema: { type: 'string', pattern: '^[A-Z]+(, [A-Z]+)*$' },
  example: 'GET, HEAD, POST, OPTIONS',
})

export const LOCATION = header('Location', {
  description: 'Where the user is, as a path.',
  required: true,
  schema: { type: 'string', format: 'uri-reference' },
  example: '/users/1',
})

export const RETRY_AFTER = header('RetryAfter', {
  description: 'After how many seconds to try again.',
  required: true,
  schema: SECONDS,
  example: 30,
})

/** On every answer; the values are those that `reply.ts` writes. */
export const FIXED_HEADERS: Readonly<Record<string, Header>> = {
  'X-Request-Id': header('XRequestId', {
    description: "The name of the request in the service's log: the client's own, or a new one.",
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
    example: '5f0c1d1e-8f0b-4f43-9f6e-2f9f3c0a7b11',
  }),
  'Cache-Control': fixed(
    'CacheControl',
    'Cache-Control',
    "Users are personal data: one's own cache may keep them, and asks again each time.",
  ),
  Vary: header('Vary', {
    description: 'Which request headers decide on the answer.',
    required: true,
    schema: { type: 'string', pattern: '^Accept(, [A-Za-z-]+)*$' },
    example: 'Accept',
  }),
  'X-Content-Type-Options': fixed(
    'XContentTypeOptions',
    'X-Content-Type-Options',
    'Browsers shall believe the Content-Type.',
  ),
  'Content-Security-Policy': fixed(
    'ContentSecurityPolicy',
    'Content-Security-Policy',
    'Browsers shall do nothing with the answer but show it.',
  ),
}

/** In place of the fixed one, on errors and on what is true for a moment only. */
export const NO_STORE = {
  'Cache-Control': header('NoStore', {
    description: 'No cache may keep the answer.',
    required: true,
    schema: { type: 'string', const: 'no-store' },
    example: 'no-store',
  }),
}

const RATE_LIMIT = {
  description: 'What is left of the limits that counted the request, and for how many seconds.',
  schema: { type: 'string', pattern: '^".*"; r=[0-9]+; t=[0-9]+' },
  example: '"signups"; r=4; t=60',
}

const RATE_LIMIT_POLICY = {
  description: 'The limits that counted the request: how many in how many seconds.',
  schema: { type: 'string', pattern: '^".*"; q=[0-9]+; w=[0-9]+; pk=:[A-Za-z0-9+/=]+:' },
  example: '"signups"; q=5; w=60; pk=:MTJjYTE3Yjk4YTc4:',
}

/** On what a limit of a route has counted. */
export const LIMIT_HEADERS: Readonly<Record<string, Header>> = {
  RateLimit: header('RateLimit', RATE_LIMIT),
  'RateLimit-Policy': header('RateLimitPolicy', RATE_LIMIT_POLICY),
}

/** On what a limit has refused. */
export const REFUSING_LIMIT_HEADERS: Readonly<Record<string, Header>> = {
  RateLimit: header('RateLimitReached', { ...RATE_LIMIT, required: true }),
  'RateLimit-Policy': header('RateLimitPolicyReached', { ...RATE_LIMIT_POLICY, required: true }),
}

/** On a body that is declared as what the service does not take. */
export const TAKEN_HEADERS: Readonly<Record<string, Header>> = {
  Accept: header('Accept', {
    description: 'The media type to send, where that was wrong.',
    schema: { type: 'string', const: 'application/json' },
    example: 'application/json',
  }),
  'Accept-Encoding': header('AcceptEncoding', {
    description: 'The content encodings that are known, where that was wrong.',
    schema: { type: 'string', const: 'gzip, deflate, br' },
    example: 'gzip, deflate, br',
  }),
}

/** For pages of other origins, where the service lets them read. */
export const CORS_HEADERS: Readonly<Record<string, Header>> = {
  'Access-Control-Allow-Origin': header('AccessControlAllowOrigin', {
    description: 'The origin whose pages may read the answer, or `*` for all.',
    schema: { type: 'string' },
    example: 'https://app.example.com',
  }),
  'Access-Control-Expose-Headers': header('AccessControlExposeHeaders', {
    description: 'The headers that such a page may read.',
    schema: { type: 'string' },
    example: 'ETag,Link,Location',
  }),
}

/** On answers to OPTIONS besides. */
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
    description: 'For how many seconds a browser need not ask again.',
    schema: SECONDS,
    example: 600,
  }),
}

/** Headers of requests. */
export const IF_NONE_MATCH = requestHeader('IfNoneMatch', {
  name: 'If-None-Match',
  description: 'Entity tags that the client has, or `*`. Where one of them still holds: 304.',
  example: A_VERSION,
})

export const IF_MATCH = requestHeader('IfMatch', {
  name: 'If-Match',
  description:
    'Entity tags one of which must be that of the present version, or `*`; else 412 and no change. ' +
    'Weak ones are of no version.',
  example: A_VERSION,
})

export const X_REQUEST_ID = requestHeader('RequestId', {
  name: 'X-Request-Id',
  description:
    'What to call the request in the log and in the answer: 1 to 128 of `A-Z a-z 0-9 . _ -`. ' +
    'Anything else is passed over.',
  example: 'order-4711.retry-2',
})

export const CONTENT_ENCODING = component('parameters', 'ContentEncoding', {
  name: 'Content-Encoding',
  in: 'header',
  description: 'How the body is compressed, if it is.',
  schema: { type: 'string', enum: ['gzip', 'x-gzip', 'deflate', 'br', 'identity'] },
  example: 'gzip',
} as const)

export const IDEMPOTENCY_KEY = component('parameters', 'IdempotencyKey', {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    '1 to 255 visible characters, bare or as a quoted string, that nobody can guess, such as a UUID. ' +
    'For 24 hours the same key and body get the first 201 again and create nothing.',
  schema: {
    type: 'string',
    pattern: '^(?:[!#-~][!-~]{0,254}|"(?:[!#-\\[\\]-~]|\\\\["\\\\]){1,255}")$',
  },
  example: '0b5d6a1e-6f2c-4c1e-9d3b-8a7f2e4c5d60',
} as const)

/** A header that stands once under `components`, by this name. */
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
