import type { ErrorCode } from '../errors.ts'
import {
  ALLOW,
  CONTENT_ENCODING,
  CORS_HEADERS,
  FIXED_HEADERS,
  LIMIT_HEADERS,
  PREFLIGHT_HEADERS,
  X_REQUEST_ID,
} from './described-headers.ts'
import {
  describeOtherAnswer,
  describeRefusals,
  type ErrorCase,
  type ErrorCases,
  type RefusalsOptions,
} from './described-refusals.ts'
import type { Action, Endpoint } from './endpoints.ts'
import { ERROR_KINDS } from './error-replies.ts'
import { pascalCase } from './json-schema.ts'
import { JSON_TYPE } from './negotiation.ts'
import { type Answer, type Operation, type Tag, withReferences } from './operation.ts'

export interface Interface {
  readonly title: string
  readonly version: string
  /** In Markdown. */
  readonly description: string
  /** Those that the filter of the limits stands before. */
  readonly limited: readonly Endpoint[]
  readonly unlimited: readonly Endpoint[]
  readonly settings: {
    readonly bodyLimitBytes: number
    /** `undefined` without CORS. */
    readonly corsOrigins: readonly string[] | '*' | undefined
  }
}

/** One operation of the document, with what the table says of it. */
interface Row {
  readonly path: string
  readonly method: string
  readonly operation: Operation
  readonly codes: readonly ErrorCode[]
  readonly isLimited: boolean
  readonly takesBody: boolean
  /** What limits of routes count it as. */
  readonly action: Action | undefined
}

/** By any request, whatever it asks for. */
const OF_ANY: readonly ErrorCode[] = [
  'request_malformed',
  'request_timeout',
  'body_too_large',
  'headers_too_large',
  'internal_error',
]

const OF_LIMITED: readonly ErrorCode[] = ['blocked', 'rate_limited', 'overloaded', 'shutting_down']

const OF_BODIES: readonly ErrorCode[] = [
  'body_malformed',
  'media_type_unsupported',
  'encoding_unsupported',
]

const OF_NO_OPERATION: readonly ErrorCode[] = ['path_not_found', 'method_not_allowed']

/** The OpenAPI 3.1 document of what a table of endpoints takes and answers. */
export function describeInterface(described: Interface): unknown {
  const { title, version, description, limited, unlimited, settings } = described
  const rows = [...rowsOf(limited, true), ...rowsOf(unlimited, false)]
  const refusals = {
    cases: casesOf(rows),
    headers: { ...FIXED_HEADERS, ...(settings.corsOrigins !== undefined && CORS_HEADERS) },
    hasBody: true,
  }
  const paths = Object.fromEntries(
    rows.map(({ path }) => {
      const ofPath = rows.filter(row => row.path === path)
      return [path, describePath(ofPath, refusals, described)]
    }),
  )
  const tags = new Map(rows.map(({ operation: { tag } }): [string, Tag] => [tag.name, tag]))
  const { document, components } = withReferences({
    openapi: '3.1.1',
    info: {
      title,
      version,
      description,
      contact: { name: 'Whoever runs this service' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/', description: 'This service' }],
    security: [],
    tags: [...tags.values()],
    paths,
    ...describeOthers(refusals),
  })
  return { ...(document as object), components }
}

/** The operations of the table, and those that it makes of them: HEAD for each GET, OPTIONS for each path. */
function rowsOf(endpoints: readonly Endpoint[], isLimited: boolean): readonly Row[] {
  const paths = [...new Set(endpoints.map(({ path }) => path))]
  return paths.flatMap(path => {
    const general = [
      ...OF_ANY,
      ...(isLimited ? OF_LIMITED : []),
      ...(path.includes('{') ? (['path_malformed'] as const) : []),
    ]
    const own = endpoints
      .filter(endpoint => endpoint.path === path)
      .flatMap((endpoint): readonly Row[] => {
        const { method, action, takesBody = false, produces = [JSON_TYPE] } = endpoint
        const operation = endpoint.operation()
        const codes = [
          ...general,
          ...(produces.length > 0 ? (['not_acceptable'] as const) : []),
          ...(takesBody ? OF_BODIES : []),
          ...(Object.keys(operation.refusals ?? {}) as ErrorCode[]),
        ]
        const row = { path, method, operation, codes, isLimited, takesBody, action }
        if (method !== 'get') return [row]
        return [row, { ...row, method: 'head', operation: headOf(row) }]
      })
    const options = { path, codes: general, isLimited, takesBody: false, action: undefined }
    return [...own, { ...options, method: 'options', operation: optionsOf(path, own) }]
  })
}

function headOf({ path, operation }: Pick<Row, 'path' | 'operation'>): Operation {
  const { body: _body, answers, ...kept } = operation
  const bodiless = Object.entries(answers).map(([status, { content: _content, ...answer }]) => [
    status,
    answer,
  ])
  return {
    ...kept,
    id: `head${nameOf(path)}`,
    summary: `${operation.summary}: headers only`,
    description: 'The headers that GET answers with, and no body.',
    answers: Object.fromEntries(bodiless),
  }
}

function optionsOf(path: string, [first, ...others]: readonly Row[]): Operation {
  if (first === undefined) throw new Error(`${path} has no endpoint`)
  const { tag, parameters = [] } = first.operation
  const methods = [first, ...others].map(({ method }) => method.toUpperCase())
  return {
    id: `options${nameOf(path)}`,
    tag,
    summary: 'What the path allows',
    description: `\`Allow\` lists ${methods.join(', ')} and OPTIONS.`,
    parameters: parameters.filter(parameter => parameter.in === 'path'),
    answers: {
      204: { description: 'The methods are in `Allow`.', headers: { Allow: ALLOW } },
    },
  }
}

/** `UsersById` of `/users/{id}`. */
function nameOf(path: string): string {
  return pascalCase(path.replaceAll('{', 'by-')) || 'Home'
}

/** How each error comes about that the interface knows, in the order of the table of errors. */
function casesOf(rows: readonly Row[]): ErrorCases {
  const path = rows[0]?.path ?? '/'
  const cases = new Map<ErrorCode, ErrorCase>()
  const codes = [...rows.flatMap(row => row.codes), ...OF_NO_OPERATION]
  for (const code of Object.keys(ERROR_KINDS) as ErrorCode[]) {
    if (!codes.includes(code)) continue
    const row = rows.find(({ operation }) => operation.refusals?.[code] !== undefined)
    const details = row?.operation.refusals?.[code] ?? {}
    const place = row === undefined ? path : samplePath(row)
    cases.set(code, { details, path: code === 'path_malformed' ? `${place}/%` : place })
  }
  return cases
}

/** With the examples of its parameters. */
function samplePath({ path, operation: { parameters = [] } }: Row): string {
  return path.replace(/\{(\w+)\}/g, (_braces, name) =>
    String(parameters.find(parameter => parameter.name === name)?.example),
  )
}

function describePath(rows: readonly Row[], refusals: RefusalsOptions, described: Interface) {
  return {
    ...Object.fromEntries(
      rows.map(row => [row.method, describeOperation(row, refusals, described)]),
    ),
    parameters: [X_REQUEST_ID],
  }
}

function describeOperation(row: Row, refusals: RefusalsOptions, { settings }: Interface) {
  const { method, operation, codes, isLimited, takesBody, action } = row
  const { id, tag, summary, description, parameters = [], body } = operation
  const ofMethod = { ...refusals, hasBody: method !== 'head' }
  return {
    operationId: id,
    tags: [tag.name],
    summary,
    description,
    ...(action !== undefined && { 'x-action': action }),
    parameters: [...parameters, ...(takesBody ? [CONTENT_ENCODING] : [])],
    ...(body && {
      requestBody: {
        description: `${body.description} At most ${settings.bodyLimitBytes} bytes, also once it is inflated.`,
        required: true,
        content: { [JSON_TYPE]: { schema: body.schema, examples: body.examples } },
      },
    }),
    responses: {
      ...describeAnswers(row, refusals),
      ...describeRefusals(codes, ofMethod),
      ...(isLimited && { default: describeOtherAnswer(ofMethod) }),
    },
  }
}

function describeAnswers(
  { method, operation: { answers }, action }: Row,
  { headers }: RefusalsOptions,
): Readonly<Record<string, Answer>> {
  const isPreflight = method === 'options' && 'Access-Control-Allow-Origin' in headers
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [
      status,
      {
        ...answer,
        headers: {
          ...headers,
          ...(action !== undefined && LIMIT_HEADERS),
          ...(isPreflight && PREFLIGHT_HEADERS),
          ...answer.headers,
        },
      },
    ]),
  )
}

/** What is answered where there is no operation: OpenAPI has no place for it but this. */
function describeOthers(refusals: RefusalsOptions) {
  const general = [...OF_ANY, ...OF_LIMITED, 'path_malformed' as const]
  const ofPaths = describeRefusals([...general, 'path_not_found'], refusals)
  const ofMethods = describeRefusals([...general, 'method_not_allowed'], refusals)
  const others = { default: describeOtherAnswer(refusals) }
  return {
    'x-other-paths': { responses: { ...ofPaths, ...others } },
    // 405 not as a component: linters would say that nothing uses it.
    'x-other-methods': { responses: { ...ofMethods, 405: { ...ofMethods[405] }, ...others } },
  }
}
