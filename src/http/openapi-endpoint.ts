import { createHash } from 'node:crypto'
import { entityTag, isKnown } from './conditional-requests.ts'
import { ETAG, FIXED_HEADERS, IF_NONE_MATCH } from './described-headers.ts'
import type { Endpoint } from './endpoints.ts'
import { JSON_TYPE } from './negotiation.ts'
import type { Interface } from './openapi.ts'
import type { Operation, Tag } from './operation.ts'

/** Where the service tells about itself. */
export const ABOUT: Tag = { name: 'About', description: 'What the service says of itself.' }

/** Nothing in it is about anybody, so that any cache may keep it, if it asks each time whether it still holds. */
const CACHE_CONTROL = 'public, no-cache'

/** `GET /openapi.json`: the document of the interface, made once and not before somebody asks for it. */
export function openApiEndpoint(described: () => Interface): Endpoint {
  let made: Promise<{ readonly body: Buffer; readonly version: string }> | undefined

  async function make() {
    const { describeInterface } = await import('./openapi.ts')
    const body = Buffer.from(JSON.stringify(describeInterface(described())))
    return { body, version: createHash('sha256').update(body).digest('base64url') }
  }

  return {
    method: 'get',
    path: '/openapi.json',
    operation,
    handle: async request => {
      made ??= make().catch(error => {
        made = undefined
        throw error
      })
      const { body, version } = await made
      const headers = { ETag: entityTag(version), 'Cache-Control': CACHE_CONTROL }
      const isFresh = isKnown(request.headers['if-none-match'], version)
      return isFresh ? { status: 304, headers } : { status: 200, headers, body }
    },
  }
}

function operation(): Operation {
  const headers = {
    ETag: ETAG,
    'Cache-Control': {
      ...FIXED_HEADERS['Cache-Control'],
      description: 'Any cache may keep it, and asks each time whether it still holds.',
      schema: { type: 'string', const: CACHE_CONTROL },
      example: CACHE_CONTROL,
    },
  }
  const sample = { openapi: '3.1.1', info: { title: 'User Records Service', version: '0.1.0' } }
  return {
    id: 'readInterface',
    tag: ABOUT,
    summary: 'This document',
    description: 'The interface in OpenAPI 3.1, with the settings of this service.',
    parameters: [IF_NONE_MATCH],
    answers: {
      200: {
        description: 'An OpenAPI document.',
        headers,
        content: {
          [JSON_TYPE]: {
            schema: {
              type: 'object',
              properties: { openapi: { type: 'string', pattern: '^3\\.1\\.' } },
              required: ['openapi'],
              additionalProperties: true,
            },
            examples: { document: { summary: 'How it begins', value: sample } },
          },
        },
      },
      304: { description: 'The client has it.', headers },
    },
  }
}
