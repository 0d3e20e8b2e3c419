import type { ErrorCode } from '../../errors.ts'
import type { Action } from '../actions.ts'
import { JSON_TYPE } from '../negotiation.ts'
import type { Operation } from '../operation.ts'

/** Where an operation is, and what stands before it. */
export interface Endpoint {
  readonly method: string
  /** With parameters in braces, as in `/users/{id}`. */
  readonly path: string
  readonly action?: Action
  readonly resource?: string
  /** Whether it needs no API key, even if keys are required. */
  readonly isOpen?: true
  /** Media types of its responses; JSON if left out. */
  readonly produces?: readonly string[]
  readonly operation: () => Operation
}

/** One operation of the OpenAPI document, with what the table of endpoints says about it. */
export interface DescribedOperation {
  readonly path: string
  readonly method: string
  readonly resource: string | undefined
  readonly operation: Operation
  /** All errors that it may answer. */
  readonly codes: readonly ErrorCode[]
  readonly isLimited: boolean
  readonly needsKey: boolean
  /** The action that route limits count it as. */
  readonly action: Action | undefined
}

/** Errors that any request may get. */
const OF_ANY: readonly ErrorCode[] = [
  'request_malformed',
  'request_timeout',
  'body_too_large',
  'headers_too_large',
  'internal_error',
]

/** Errors of the filter of the limits, and of what stands before it. */
const OF_LIMITED: readonly ErrorCode[] = [
  'host_not_allowed',
  'blocked',
  'rate_limited',
  'overloaded',
  'shutting_down',
]

/** Errors of the check of API keys. */
const OF_KEYS: readonly ErrorCode[] = ['key_required', 'scope_missing']

const OF_BODIES: readonly ErrorCode[] = [
  'body_malformed',
  'media_type_unsupported',
  'encoding_unsupported',
]

/**
 * The operations of the table. HEAD and OPTIONS are left out: a generated client would get a method of each for every path.
 */
export function operationsOf(
  endpoints: readonly Endpoint[],
  { isLimited, needsKeys }: { readonly isLimited: boolean; readonly needsKeys: boolean },
): readonly DescribedOperation[] {
  return endpoints.flatMap(endpoint => {
    const { method, path, resource, action, produces = [JSON_TYPE] } = endpoint
    const operation = endpoint.operation()
    const needsKey = needsKeys && !endpoint.isOpen
    const codes = [
      ...OF_ANY,
      ...(isLimited ? OF_LIMITED : []),
      ...(needsKey ? OF_KEYS : []),
      ...(path.includes('{') ? (['path_malformed'] as const) : []),
      ...(produces.length > 0 ? (['not_acceptable'] as const) : []),
      ...(operation.body === undefined ? [] : OF_BODIES),
      ...(Object.keys(operation.refusals ?? {}) as ErrorCode[]),
    ]
    return { path, method, resource, operation, codes, isLimited, needsKey, action }
  })
}
