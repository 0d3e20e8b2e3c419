/** The pages for people, in the OpenAPI document. */

import { HTML_TYPE, JSON_TYPE } from '../negotiation.ts'
import type { Endpoint } from '../openapi/described-operations.ts'
import { ABOUT_TAG } from '../openapi/openapi-endpoint.ts'
import { component } from '../openapi/references.ts'
import type { DescribedContent, Operation } from '../operation.ts'
import { homeAsJson } from './home.ts'

const PAGE: DescribedContent = {
  schema: { type: 'string' },
  examples: { page: { summary: 'How it begins', value: '<!doctype html>\n<html lang="en">\n' } },
}

/** `GET /`. `example` is its JSON, whose fields but `message` and `version` are paths. */
export function describeHome(example: Readonly<Record<string, string>>): Operation {
  const { message, version, status, ...paths } = example
  const path = { type: 'string', format: 'uri-reference' }
  const schema = component('schemas', 'Home', {
    type: 'object',
    properties: {
      message: { type: 'string' },
      version: { type: 'string' },
      status: {
        type: 'string',
        enum: ['ok', 'unavailable'],
        description: 'Whether requests can be served, as `/readyz` says.',
      },
      ...Object.fromEntries(Object.keys(paths).map(name => [name, path])),
    },
    required: Object.keys(example),
  })
  return {
    id: 'showHome',
    tag: ABOUT_TAG,
    summary: 'Where everything is',
    description:
      'The paths of the service: as a page to a client that prefers HTML, otherwise as JSON.',
    answers: {
      200: {
        description: 'What the service is, and its paths.',
        content: {
          [JSON_TYPE]: {
            schema,
            examples: { home: { summary: 'The paths', value: example } },
          },
          [HTML_TYPE]: PAGE,
        },
      },
    },
  }
}

export function describeDocs(): Operation {
  return {
    id: 'showDocs',
    tag: ABOUT_TAG,
    summary: 'This document, for people',
    description: 'A page with the whole interface, and requests to try.',
    answers: {
      200: { description: 'The page.', content: { [HTML_TYPE]: PAGE } },
    },
  }
}

/** `GET /` of a service. */
export function homeEndpoint(about: { version: string; needsKeys: boolean }): Endpoint {
  const example = homeAsJson({ ...about, status: 'ok', baseUrl: '' })
  const produces = [JSON_TYPE, HTML_TYPE]
  return {
    method: 'get',
    path: '/',
    isOpen: true,
    produces,
    operation: () => describeHome(example),
  }
}

export const docsEndpoint: Endpoint = {
  method: 'get',
  path: '/docs',
  isOpen: true,
  produces: [HTML_TYPE],
  operation: describeDocs,
}
