/** What the pages for people are, in the document of the interface. */

import { FIXED_HEADERS } from './described-headers.ts'
import { HTML_TYPE, JSON_TYPE } from './negotiation.ts'
import { ABOUT } from './openapi-endpoint.ts'
import { component, type DescribedContent, type Header, type Operation } from './operation.ts'

const PAGE_CSP: Readonly<Record<string, Header>> = {
  'Content-Security-Policy': component('headers', 'PageContentSecurityPolicy', {
    description: 'What the page may load: of this service only, and nothing inline but one style.',
    required: true,
    schema: { type: 'string', pattern: "^default-src 'none'; " },
    example: "default-src 'none'; script-src 'self'; frame-ancestors 'none'",
  }),
}

const PAGE: DescribedContent = {
  schema: { type: 'string' },
  examples: { page: { summary: 'How it begins', value: '<!doctype html>\n<html lang="en">\n' } },
}

/** `GET /`, with an example of its JSON, whose other fields are paths. */
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
        description: 'Whether it can serve, as `/readyz` says it.',
      },
      ...Object.fromEntries(Object.keys(paths).map(name => [name, path])),
    },
    required: Object.keys(example),
  })
  return {
    id: 'showHome',
    tag: ABOUT,
    summary: 'Where everything is',
    description:
      'The paths of the service, and whether it is ready: as a page to who likes HTML better, as JSON to all others.',
    answers: {
      200: {
        description: 'What this is and where its paths are.',
        headers: {
          'Content-Security-Policy': component('headers', 'HomeContentSecurityPolicy', {
            description:
              'That of all answers, or of the page: one style and an icon that is empty.',
            required: true,
            schema: { type: 'string', pattern: "^default-src 'none'; " },
            example: "default-src 'none'; frame-ancestors 'none'",
          }),
        },
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
    tag: ABOUT,
    summary: 'This document, for people',
    description: 'A page with the whole interface, to read and to try.',
    answers: {
      200: { description: 'The page.', headers: PAGE_CSP, content: { [HTML_TYPE]: PAGE } },
    },
  }
}

/** The files that the page of `GET /docs` loads. */
export function describeDocsFile(): Operation {
  const text = (value: string): DescribedContent => ({
    schema: { type: 'string' },
    examples: { file: { summary: 'How one may begin', value } },
  })
  const cacheControl = 'public, max-age=31536000, immutable'
  return {
    id: 'readDocsFile',
    tag: ABOUT,
    summary: 'What that page loads',
    description:
      'Scripts, styles and licences, compressed where `Accept-Encoding` allows it. The page has the paths.',
    parameters: [
      {
        name: 'release',
        in: 'path',
        required: true,
        description: 'The contents of all files, in short.',
        schema: { type: 'string', pattern: '^[0-9a-f]{16}$' },
        example: '5d3bbd73eb3fcd8f',
      },
      {
        name: 'file',
        in: 'path',
        required: true,
        description: 'Its name.',
        schema: { type: 'string' },
        example: 'swagger-ui.css',
      },
      {
        name: 'Accept-Encoding',
        in: 'header',
        description: 'How it may be compressed: `br`, `gzip` or not at all.',
        schema: { type: 'string' },
        example: 'gzip, br',
      },
    ],
    answers: {
      200: {
        description: 'The file, which under this path never changes.',
        headers: {
          'Cache-Control': component('headers', 'Immutable', {
            description: 'Any cache may keep it for good.',
            required: true,
            schema: { type: 'string', const: cacheControl },
            example: cacheControl,
          }),
          'Content-Encoding': component('headers', 'ContentEncoding', {
            description: 'How it is compressed, if it is.',
            schema: { type: 'string', enum: ['br', 'gzip'] },
            example: 'br',
          }),
          Vary: component('headers', 'VaryByEncoding', {
            ...(FIXED_HEADERS.Vary as Header),
            schema: { type: 'string', pattern: '^Accept, Accept-Encoding(, *Origin)?$' },
            example: 'Accept, Accept-Encoding',
          }),
        },
        content: {
          'text/javascript': text('/* A script */'),
          'text/css': text('body { margin: 0 }'),
          'text/plain': text('Licence'),
          'image/svg+xml': text('<svg xmlns="http://www.w3.org/2000/svg"></svg>'),
        },
      },
    },
    refusals: { path_not_found: {} },
  }
}
