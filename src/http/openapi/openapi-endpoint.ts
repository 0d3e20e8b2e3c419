import { createHash } from 'node:crypto'
import type { Request } from 'express'
import { entityTag, matchesIfNoneMatch } from '../headers.ts'
import { JSON_TYPE } from '../negotiation.ts'
import type { Operation, Tag } from '../operation.ts'
import type { Reply } from '../reply.ts'
import { ETAG, IF_NONE_MATCH } from './described-headers.ts'
import type { Endpoint } from './described-operations.ts'
import type { ApiDescription } from './openapi.ts'

/** The tag of operations in which the service describes itself. */
export const ABOUT_TAG: Tag = { name: 'About', description: 'What the service says about itself.' }

/** It holds nothing personal: any cache may store it, but must revalidate it each time. */
const CACHE_CONTROL = 'public, no-cache'

interface MadeDocument {
  readonly body: Buffer
  readonly version: string
}

/**
 * `GET /openapi.json`: the OpenAPI document. It is made on the first request, and again if an outer application passes on a
 * request through another mount path than the last one.
 */
export function answerWithDocument(described: (baseUrl: string) => ApiDescription) {
  let last: { readonly baseUrl: string; readonly made: Promise<MadeDocument> } | undefined

  async function make(baseUrl: string): Promise<MadeDocument> {
    const { describeInterface } = await import('./openapi.ts')
    const body = Buffer.from(JSON.stringify(describeInterface(described(baseUrl))))
    return { body, version: createHash('sha256').update(body).digest('base64url') }
  }

  function documentFor(baseUrl: string): Promise<MadeDocument> {
    if (last?.baseUrl === baseUrl) return last.made
    const made = make(baseUrl)
    last = { baseUrl, made }
    // After a failure, the next request tries again.
    made.catch(() => {
      if (last?.made === made) last = undefined
    })
    return made
  }

  return async (request: Request): Promise<Reply> => {
    const { body, version } = await documentFor(request.baseUrl)
    const headers = { ETag: entityTag(version), 'Cache-Control': CACHE_CONTROL }
    const isFresh = matchesIfNoneMatch(request.headers['if-none-match'], version)
    return isFresh ? { status: 304, headers } : { status: 200, headers, body }
  }
}

export const documentEndpoint: Endpoint = {
  method: 'get',
  path: '/openapi.json',
  isOpen: true,
  operation: describeDocument,
}

function describeDocument(): Operation {
  const headers = { ETag: ETAG }
  const sample = { openapi: '3.1.1', info: { title: 'User Records Service', version: '1.0.0' } }
  return {
    id: 'readInterface',
    tag: ABOUT_TAG,
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
      304: { description: 'The client has this version.', headers },
    },
  }
}
