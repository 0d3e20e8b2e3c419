import { z } from 'zod'
import {
  type oas31,
  createDocument as toDocument,
  type ZodOpenApiOverride,
  type ZodOpenApiPathsObject,
  type ZodOpenApiResponseObject,
} from 'zod-openapi'
import { DECOMPRESSORS, PATCH_TYPES } from '../body.ts'
import { JSON_TYPE } from '../negotiation.ts'
import type { DescribedOperation, DocumentSettings } from './operation.ts'
import { COMMON_HEADERS, PREFER, X_REQUEST_ID } from './operation.ts'
import { createRefusals, OTHERWISE } from './refusals.ts'

/** The name of the security scheme. */
const KEY_SCHEME = 'apiKey'

const KEY = {
  type: 'http',
  scheme: 'bearer',
  description:
    'An API key from the operator, with the scope that the operation needs, such as `users:write`.',
} as const

/**
 * The OpenAPI 3.1 document of these operations. HEAD and OPTIONS are left out: a generated client would get a method of each
 * for every path.
 */
export function createDocument(
  operations: readonly DescribedOperation[],
  { version, baseUrl, bodyLimitBytes, scopes }: DocumentSettings,
): unknown {
  const refusalsOf = createRefusals(scopes)
  const paths: ZodOpenApiPathsObject = {}
  for (const operation of operations) {
    const { path, method, action, isUnfiltered } = operation
    const scope = action && scopes?.[action]
    const responses: Record<string, ZodOpenApiResponseObject> = {
      ...refusalsOf(operation),
      ...(!isUnfiltered && { default: OTHERWISE }),
    }
    for (const [status, { headers, ...answer }] of Object.entries(operation.answers)) {
      responses[status] = { ...answer, headers: z.object({ ...COMMON_HEADERS, ...headers }) }
    }
    const described = {
      ...describeRequest(operation, bodyLimitBytes),
      ...(scopes && { security: scope === undefined ? [] : [{ [KEY_SCHEME]: [scope] }] }),
      responses,
    }
    paths[path] = { ...paths[path], [method]: described }
  }
  return toDocument(
    {
      openapi: '3.1.1',
      info: {
        title: 'User Records Service',
        version,
        description: introduction(scopes !== undefined),
        contact: { name: 'The operator of this service' },
        license: { name: 'MIT', identifier: 'MIT' },
      },
      servers: [{ url: baseUrl, description: 'This service' }],
      security: scopes ? [{ [KEY_SCHEME]: [] }] : [],
      tags: [...new Set(operations.map(({ tag }) => tag))],
      paths,
      ...(scopes && { components: { securitySchemes: { [KEY_SCHEME]: KEY } } }),
    },
    { override: adaptSchema },
  )
}

function describeRequest(operation: DescribedOperation, bodyLimitBytes: number) {
  const { id, method, tag, summary, description } = operation
  const { parameters = [], query, body, example } = operation
  const types = method === 'patch' ? PATCH_TYPES : [JSON_TYPE]
  return {
    operationId: id,
    tags: [tag.name],
    summary,
    description,
    // On each operation and not once on its path, where Swagger UI does not follow references.
    parameters: [...(query ? describeQuery(query) : []), ...parameters, X_REQUEST_ID],
    ...(body && {
      requestBody: {
        description: `Other attributes are ignored${parameters.includes(PREFER) ? ', unless `Prefer` is sent' : ''}. At most ${bodyLimitBytes} bytes, also after decompression: \`Content-Encoding\` may be ${[...DECOMPRESSORS.keys()].join(', ')}.`,
        required: true,
        content: Object.fromEntries(types.map(type => [type, { schema: body, example }])),
      },
    }),
  }
}

/** zod-openapi would describe the texts that the schema takes, but clients send numbers, booleans and lists with commas. */
function describeQuery(query: z.ZodObject): oas31.ParameterObject[] {
  const { properties = {}, required } = z.toJSONSchema(query, {
    io: 'output',
    unrepresentable: 'any',
  })
  return Object.entries(properties as Record<string, oas31.SchemaObject>).map(
    ([name, { description = '', ...schema }]) => ({
      ...{ name, in: 'query', description, schema },
      // Optional ones with a default are always there after parsing.
      ...(required?.includes(name) && schema.default === undefined && { required: true }),
      ...(schema.type === 'array' && { style: 'form', explode: false }),
    }),
  )
}

/** zod closes each object of a response, but clients must be ready for new fields. Text or null becomes one type. */
const adaptSchema: ZodOpenApiOverride = ({ zodSchema, jsonSchema }) => {
  const { def } = zodSchema._zod
  if (def.type === 'object' && def.catchall === undefined) delete jsonSchema.additionalProperties
  const { anyOf: [text, nothing, ...others] = [] } = jsonSchema
  if (nothing?.type !== 'null' || others.length > 0 || text?.type !== 'string') return
  delete jsonSchema.anyOf
  Object.assign(jsonSchema, text, { ...jsonSchema, type: ['string', 'null'] })
}

const NO_KEYS = 'The service asks for none. Anyone who can reach it can do everything.'

const KEYS = `Requests need an API key: \`Authorization: Bearer KEY\`. Without a valid one the response is 401, whatever the
path; without the scope that the operation needs, 403. This document, the pages and the health checks are open to all.`

/** Markdown. */
const introduction = (needsKeys: boolean) => `\
Create, list, read, change and delete users, and verify their passwords, as JSON over HTTP.

**Credentials.** ${needsKeys ? KEYS : NO_KEYS}

**Formats.** Bodies are \`application/json\` in UTF-8. If \`Accept\` allows neither that nor \`application/problem+json\`, the
response is 406. HEAD works wherever GET does, and OPTIONS on every path; neither is shown below. Other methods get 405 with
\`Allow\`, unknown paths 404.

**Errors** have the form \`Error\`. Clients whose \`Accept\` gives \`application/problem+json\` a higher quality than
\`application/json\` get \`Problem\` of RFC 9457 instead. The responses below list their \`reason\`s.

**Limits.** The operator may have set limits: a blocked or banned client gets 403, a client that sends too many requests 429.
\`RateLimit\` and \`RateLimit-Policy\` say what is allowed and what is left. A rule may respond in another way, such as with a
redirect.`
