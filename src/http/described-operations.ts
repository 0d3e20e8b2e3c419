import type { ErrorCode } from '../errors.ts'
import { ALLOW } from './described-headers.ts'
import type { Action, Endpoint } from './endpoints.ts'
import { pascalCase } from './json-schema.ts'
import { JSON_TYPE } from './negotiation.ts'
import type { Operation } from './operation.ts'

/** One operation of the document, with what the table says of it. */
export interface DescribedOperation {
  readonly path: string
  readonly method: string
  readonly operation: Operation
  /** All that it may be refused by. */
  readonly codes: readonly ErrorCode[]
  readonly isLimited: boolean
  /** What limits of routes count it as. */
  readonly action: Action | undefined
}

/** What any request may be refused by, whatever it asks for. */
export const OF_ANY: readonly ErrorCode[] = [
  'request_malformed',
  'request_timeout',
  'body_too_large',
  'headers_too_large',
  'internal_error',
]

/** What the filter of the limits, or one before it, refuses. */
export const OF_LIMITED: readonly ErrorCode[] = [
  'blocked',
  'rate_limited',
  'overloaded',
  'shutting_down',
]

const OF_BODIES: readonly ErrorCode[] = [
  'body_malformed',
  'media_type_unsupported',
  'encoding_unsupported',
]

/** The operations of the table, and those that it makes of them: HEAD for each GET, OPTIONS for each path. */
export function operationsOf(
  endpoints: readonly Endpoint[],
  isLimited: boolean,
): readonly DescribedOperation[] {
  const paths = [...new Set(endpoints.map(({ path }) => path))]
  return paths.flatMap(path => {
    const general = [
      ...OF_ANY,
      ...(isLimited ? OF_LIMITED : []),
      ...(path.includes('{') ? (['path_malformed'] as const) : []),
    ]
    const own = endpoints
      .filter(endpoint => endpoint.path === path)
      .flatMap((endpoint): readonly DescribedOperation[] => {
        const { method, action, produces = [JSON_TYPE] } = endpoint
        const operation = endpoint.operation()
        const codes = [
          ...general,
          ...(produces.length > 0 ? (['not_acceptable'] as const) : []),
          ...(operation.body === undefined ? [] : OF_BODIES),
          ...(Object.keys(operation.refusals ?? {}) as ErrorCode[]),
        ]
        const row = { path, method, operation, codes, isLimited, action }
        if (method !== 'get') return [row]
        return [row, { ...row, method: 'head', operation: headOf(row) }]
      })
    const options = { path, codes: general, isLimited, action: undefined }
    return [...own, { ...options, method: 'options', operation: optionsOf(path, own) }]
  })
}

function headOf({ path, operation }: Pick<DescribedOperation, 'path' | 'operation'>): Operation {
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

function optionsOf(path: string, [first, ...others]: readonly DescribedOperation[]): Operation {
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
