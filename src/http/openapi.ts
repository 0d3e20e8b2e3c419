import type { ErrorCode } from '../errors.ts'
import {
  CONTENT_ENCODING,
  CORS_HEADERS,
  FIXED_HEADERS,
  LIMIT_HEADERS,
  PREFLIGHT_HEADERS,
  X_REQUEST_ID,
} from './described-headers.ts'
import {
  type DescribedOperation,
  OF_ANY,
  OF_LIMITED,
  operationsOf,
} from './described-operations.ts'
import {
  describeRefusals,
  type ErrorCase,
  type ErrorCases,
  type Refusals,
} from './described-refusals.ts'
import type { Endpoint } from './endpoints.ts'
import { ERROR_KINDS } from './error-replies.ts'
import { JSON_TYPE } from './negotiation.ts'
import { type Answer, type Tag, withReferences } from './operation.ts'

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

const OF_NO_OPERATION: readonly ErrorCode[] = ['path_not_found', 'method_not_allowed']

/** The OpenAPI 3.1 document of what a table of endpoints takes and answers. */
export function describeInterface(described: Interface): unknown {
  const { title, version, description, limited, unlimited, settings } = described
  const rows = [...operationsOf(limited, true), ...operationsOf(unlimited, false)]
  const hasCors = settings.corsOrigins !== undefined
  const headers = { ...FIXED_HEADERS, ...(hasCors && { ...CORS_HEADERS, ...PREFLIGHT_HEADERS }) }
  const cases = casesOf(rows)
  const refusals = describeRefusals({ cases, headers, hasBody: true })
  const bodiless = describeRefusals({ cases, headers, hasBody: false })
  const paths = [...new Set(rows.map(({ path }) => path))].map(path => {
    const operations = rows
      .filter(row => row.path === path)
      .map(row => {
        const refused = row.method === 'head' ? bodiless : refusals
        return [row.method, describeOperation(row, refused, settings)]
      })
    return [path, { ...Object.fromEntries(operations), parameters: [X_REQUEST_ID] }]
  })
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
    paths: Object.fromEntries(paths),
    ...describeOthers(refusals),
  })
  return { ...(document as object), components }
}

/** How each error comes about that the interface knows, in the order of the table of errors. */
function casesOf(rows: readonly DescribedOperation[]): ErrorCases {
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
function samplePath({ path, operation: { parameters = [] } }: DescribedOperation): string {
  return path.replace(/\{(\w+)\}/g, (_braces, name) =>
    String(parameters.find(parameter => parameter.name === name)?.example),
  )
}

function describeOperation(
  { method, operation, codes, isLimited, action }: DescribedOperation,
  refusals: Refusals,
  settings: Interface['settings'],
) {
  const { id, tag, summary, description, parameters = [], body } = operation
  return {
    operationId: id,
    tags: [tag.name],
    summary,
    description,
    ...(action !== undefined && { 'x-action': action }),
    parameters: [...parameters, ...(body === undefined ? [] : [CONTENT_ENCODING])],
    ...(body && {
      requestBody: {
        description: `${body.description} At most ${settings.bodyLimitBytes} bytes, also once it is inflated.`,
        required: true,
        content: { [JSON_TYPE]: { schema: body.schema, examples: body.examples } },
      },
    }),
    responses: {
      ...describeAnswers({ method, operation, action }, settings),
      ...refusals.of(codes),
      ...(isLimited && { default: refusals.other }),
    },
  }
}

function describeAnswers(
  {
    method,
    operation: { answers },
    action,
  }: Pick<DescribedOperation, 'method' | 'operation' | 'action'>,
  { corsOrigins }: Interface['settings'],
): Readonly<Record<string, Answer>> {
  const headers = {
    ...FIXED_HEADERS,
    ...(corsOrigins !== undefined && CORS_HEADERS),
    ...(corsOrigins !== undefined && method === 'options' && PREFLIGHT_HEADERS),
    ...(action !== undefined && LIMIT_HEADERS),
  }
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [
      status,
      { ...answer, headers: { ...headers, ...answer.headers } },
    ]),
  )
}

/** What is answered where there is no operation: OpenAPI has no place for it but this. */
function describeOthers(refusals: Refusals) {
  const general = [...OF_ANY, ...OF_LIMITED, 'path_malformed' as const]
  const ofPaths = refusals.of([...general, 'path_not_found'])
  const ofMethods = refusals.of([...general, 'method_not_allowed'])
  const others = { default: refusals.other }
  return {
    'x-other-paths': { responses: { ...ofPaths, ...others } },
    // 405 not as a component: linters would say that nothing uses it.
    'x-other-methods': { responses: { ...ofMethods, 405: { ...ofMethods[405] }, ...others } },
  }
}
