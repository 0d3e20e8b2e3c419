import { DECOMPRESSORS } from '../body.ts'
import type { Header, Parameter } from '../operation.ts'
import { component } from './references.ts'

const ENTITY_TAG = { type: 'string', pattern: '^"[!#-~]+"$' }

const A_VERSION = '"2026-01-31T12:00:00.000Z"'

/** Headers of responses, by their name. */
export const ETAG = header('ETag', {
  description: 'The version in the response, for `If-None-Match` and `If-Match`.',
  required: true,
  schema: ENTITY_TAG,
  example: A_VERSION,
})

export const LOCATION = header('Location', {
  description: 'The path of the user.',
  required: true,
  schema: { type: 'string', format: 'uri-reference' },
  example: '/users/1',
})

export const RETRY_AFTER = header('RetryAfter', {
  description: 'How many seconds to wait before a retry.',
  schema: { type: 'integer', minimum: 0 },
  example: 30,
})

export const WWW_AUTHENTICATE = header('WwwAuthenticate', {
  description: 'How to send an API key, and the scope that a key lacks.',
  schema: { type: 'string', pattern: '^Bearer( error="insufficient_scope", scope="[a-z:]+")?$' },
  example: 'Bearer',
})

/** On every response. */
export const COMMON_HEADERS: Readonly<Record<string, Header>> = {
  'X-Request-Id': header('XRequestId', {
    description: "The id of the request in the log of the service: the client's own, or a new one.",
    required: true,
    schema: { type: 'string', pattern: '^[A-Za-z0-9._-]{1,128}$' },
    example: '5f0c1d1e-8f0b-4f43-9f6e-2f9f3c0a7b11',
  }),
}

/** On responses to requests that a limit has counted. */
export const LIMIT_HEADERS: Readonly<Record<string, Header>> = {
  RateLimit: header('RateLimit', {
    description:
      'The limits that counted the request: how many requests are left, and for how many seconds.',
    schema: { type: 'string', pattern: '^".*"; r=[0-9]+; t=[0-9]+' },
    example: '"signups"; r=4; t=60',
  }),
  'RateLimit-Policy': header('RateLimitPolicy', {
    description:
      'The limits that counted the request: how many requests are allowed in how many seconds.',
    schema: { type: 'string', pattern: '^".*"; q=[0-9]+; w=[0-9]+; pk=:[A-Za-z0-9+/=]+:' },
    example: '"signups"; q=5; w=60; pk=:MTJjYTE3Yjk4YTc4:',
  }),
}

/** Headers of requests. Their examples are in the schemas: Swagger UI would fill in and send those of parameters. */
export const IF_NONE_MATCH = requestHeader('IfNoneMatch', {
  name: 'If-None-Match',
  description:
    'Entity tags that the client has, or `*`. If one of them is current, the response is 304.',
  schema: { type: 'string', examples: [A_VERSION] },
})

export const IF_MATCH = requestHeader('IfMatch', {
  name: 'If-Match',
  description:
    'Entity tags, one of which must be that of the current version, or `*`; otherwise 412 and no change. ' +
    'Weak tags never match.',
  schema: { type: 'string', examples: [A_VERSION] },
})

export const X_REQUEST_ID = requestHeader('RequestId', {
  name: 'X-Request-Id',
  description:
    'The id of the request, for the log and the response: 1 to 128 of `A-Z a-z 0-9 . _ -`. ' +
    'Anything else is ignored.',
  schema: { type: 'string', examples: ['order-4711.retry-2'] },
})

export const CONTENT_ENCODING = requestHeader('ContentEncoding', {
  name: 'Content-Encoding',
  description: 'The compression of the body.',
  schema: { type: 'string', enum: [...DECOMPRESSORS.keys(), 'identity'] },
})

export const IDEMPOTENCY_KEY = requestHeader('IdempotencyKey', {
  name: 'Idempotency-Key',
  description:
    'A key that nobody can guess, such as a UUID: 1 to 255 visible characters, bare or as a quoted string. ' +
    'For 24 hours the same key and body get the first 201 again and create nothing.',
  schema: {
    type: 'string',
    pattern: '^(?:[!#-~][!-~]{0,254}|"(?:[!#-\\[\\]-~]|\\\\["\\\\]){1,255}")$',
    examples: ['0b5d6a1e-6f2c-4c1e-9d3b-8a7f2e4c5d60'],
  },
})

/** A header that the document defines once, under `components` by this name. */
export function header(name: string, described: Header): Header {
  return component('headers', name, described)
}

function requestHeader(place: string, described: Omit<Parameter, 'in'>): Parameter {
  return component('parameters', place, { ...described, in: 'header' } as const)
}
