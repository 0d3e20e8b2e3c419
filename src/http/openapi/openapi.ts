import { ERRORS, type ErrorCode } from '../../errors.ts'
import { ACTIONS, type Action } from '../actions.ts'
import { JSON_TYPE } from '../negotiation.ts'
import type { Answer, Operation, Tag } from '../operation.ts'
import {
  COMMON_HEADERS,
  CONTENT_ENCODING,
  LIMIT_HEADERS,
  X_REQUEST_ID,
} from './described-headers.ts'
import { type DescribedOperation, type Endpoint, operationsOf } from './described-operations.ts'
import {
  describeRefusals,
  type ErrorCase,
  type ErrorCases,
  type Refusals,
} from './described-refusals.ts'
import { withReferences } from './references.ts'

export interface ApiDescription {
  readonly title: string
  readonly version: string
  /** The path under which another application has mounted this one, or empty. */
  readonly baseUrl: string
  /** In Markdown. */
  readonly description: string
  /** Endpoints behind the filter of the limits. */
  readonly limited: readonly Endpoint[]
  readonly unlimited: readonly Endpoint[]
  readonly settings: {
    readonly bodyLimitBytes: number
    /** The scope of an API key that each action needs; `undefined` if no key is required. */
    readonly scopes: Readonly<Record<Action, string>> | undefined
  }
}

/** The name of the security scheme. */
const KEY_SCHEME = 'apiKey'

const ANY_KEY = { [KEY_SCHEME]: [] }

/** The OpenAPI 3.1 document of what a table of endpoints takes and answers. */
export function describeInterface(described: ApiDescription): unknown {
  const { title, version, description, limited, unlimited, settings } = described
  const needsKeys = settings.scopes !== undefined
  const rows = inReadingOrder([
    ...operationsOf(limited, { isLimited: true, needsKeys }),
    ...operationsOf(unlimited, { isLimited: false, needsKeys: false }),
  ])
  const refusals = describeRefusals(casesOf(rows))
  const paths = [...new Set(rows.map(({ path }) => path))].map(path => {
    const operations = rows
      .filter(row => row.path === path)
      .map(row => [row.method, describeOperation(row, refusals, settings)])
    return [path, Object.fromEntries(operations)]
  })
  const tags = new Map(rows.map(({ operation: { tag } }): [string, Tag] => [tag.name, tag]))
  const { document, components } = withReferences({
    openapi: '3.1.1',
    info: {
      title,
      version,
      description,
      contact: { name: 'The operator of this service' },
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: described.baseUrl || '/', description: 'This service' }],
    security: needsKeys ? [ANY_KEY] : [],
    tags: [...tags.values()],
    paths: Object.fromEntries(paths),
  })
  const schemes = needsKeys && { securitySchemes: { [KEY_SCHEME]: describeKeys(settings.scopes) } }
  return { ...(document as object), components: { ...components, ...schemes } }
}

/** By tag, and within a tag first what needs no id: so the examples work from top to bottom, also one that deletes. */
function inReadingOrder(rows: readonly DescribedOperation[]): readonly DescribedOperation[] {
  const tags = [...new Set(rows.map(({ operation }) => operation.tag.name))]
  const placeOf = ({ operation, path }: DescribedOperation) =>
    2 * tags.indexOf(operation.tag.name) + Number(path.includes('{'))
  return rows.toSorted((a, b) => placeOf(a) - placeOf(b))
}

/** Where each error of the interface occurs, in the order of the table of errors. */
function casesOf(rows: readonly DescribedOperation[]): ErrorCases {
  const cases = new Map<ErrorCode, ErrorCase>()
  const codes = rows.flatMap(row => row.codes)
  for (const code of Object.keys(ERRORS) as ErrorCode[]) {
    if (!codes.includes(code)) continue
    const own = rows.find(({ operation }) => operation.refusals?.[code] !== undefined)
    const details = own?.operation.refusals?.[code] ?? {}
    const path = own === undefined ? (rows[0]?.path ?? '/') : samplePath(own)
    const { resource } = own ?? rows[0] ?? {}
    cases.set(code, { details, path: code === 'path_malformed' ? `${path}/%` : path, resource })
  }
  return cases
}

/** The path with the examples of its parameters. */
function samplePath({ path, operation: { parameters = [] } }: DescribedOperation): string {
  return path.replace(/\{(\w+)\}/g, (_braces, name) =>
    String(parameters.find(parameter => parameter.name === name)?.example),
  )
}

function describeOperation(
  { operation, codes, isLimited, needsKey, action }: DescribedOperation,
  refusals: Refusals,
  settings: ApiDescription['settings'],
) {
  const { id, tag, summary, description, parameters = [], body } = operation
  return {
    operationId: id,
    tags: [tag.name],
    summary,
    description,
    ...(settings.scopes !== undefined && { security: needsKey ? [keyFor(action, settings)] : [] }),
    // On each operation and not once on its path, where Swagger UI does not follow references.
    parameters: [...parameters, ...(body === undefined ? [] : [CONTENT_ENCODING]), X_REQUEST_ID],
    ...(body && {
      requestBody: {
        description: `${body.description} At most ${settings.bodyLimitBytes} bytes, also after decompression.`,
        required: true,
        content: { [JSON_TYPE]: { schema: body.schema, examples: body.examples } },
      },
    }),
    responses: {
      ...describeAnswers(operation, action),
      ...refusals.of(codes),
      ...(isLimited && { default: refusals.other }),
    },
  }
}

/** Its scope, as OpenAPI 3.1 has the roles that an operation needs. */
function keyFor(action: Action | undefined, { scopes }: ApiDescription['settings']) {
  return action === undefined || scopes === undefined ? ANY_KEY : { [KEY_SCHEME]: [scopes[action]] }
}

function describeKeys(scopes: Readonly<Record<Action, string>>) {
  const lines = [...new Set(Object.values(scopes))].map(scope => {
    const actions = ACTIONS.filter(action => scopes[action] === scope)
    return `\`${scope}\` for ${actions.join(', ')}`
  })
  return {
    type: 'http',
    scheme: 'bearer',
    description: `An API key from the operator. What it may do depends on its scopes: ${lines.join('; ')}.`,
  }
}

function describeAnswers(
  { answers }: Operation,
  action: Action | undefined,
): Readonly<Record<string, Answer>> {
  const headers = { ...COMMON_HEADERS, ...(action !== undefined && LIMIT_HEADERS) }
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [
      status,
      { ...answer, headers: { ...headers, ...answer.headers } },
    ]),
  )
}
