import type { z } from 'zod'
import type { ZodOpenApiResponseObject } from 'zod-openapi'
import type { ErrorCode } from '../../errors.ts'
import type { Action } from '../actions.ts'

/** One operation of the service: where it is, and what it takes and answers. */
export interface DescribedOperation {
  /** What generated clients call it. */
  readonly id: string
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** With parameters in braces, as in `/users/{id}`. */
  readonly path: string
  /** What limits and scopes call it; left out if neither applies. */
  readonly action?: Action
  /** Whether it needs no API key, even if keys are required. */
  readonly isOpen?: true
  /** Whether it is answered before the limits and everything else that may deny a request. */
  readonly isUnfiltered?: true
  /** Media types of its responses; JSON if left out. With `[]` the Accept header is ignored. */
  readonly produces?: readonly string[]
  /** The heading under which it stands. */
  readonly tag: { readonly name: string; readonly description: string }
  /** A few words. */
  readonly summary: string
  /** Sentences, in Markdown. */
  readonly description: string
  /** In the path and in headers. */
  readonly parameters?: readonly z.ZodType[]
  /** Query parameters. They are described by the values that their texts become. */
  readonly query?: z.ZodObject
  /** Of a JSON body. Without it, none is read. */
  readonly body?: z.ZodType
  /** Responses that are no errors, by status. `headers` are added to those of every response. */
  readonly answers: Readonly<Record<number, Answer>>
  /** Errors besides those of every similar operation. */
  readonly refusals?: readonly ErrorCode[]
}

export type Answer = Omit<ZodOpenApiResponseObject, 'headers'> & { readonly headers?: Schemas }

/** Schemas by name. */
export type Schemas = Readonly<Record<string, z.ZodType>>
