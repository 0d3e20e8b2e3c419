import type { ErrorCode, ErrorDetails } from '../errors.ts'

/** JSON Schema 2020-12, as OpenAPI 3.1 has it. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** What an endpoint takes and answers, for the OpenAPI document. */
export interface Operation {
  /** What generated clients call it. */
  readonly id: string
  readonly tag: Tag
  /** A few words. */
  readonly summary: string
  /** Sentences, in Markdown. */
  readonly description: string
  readonly parameters?: readonly Parameter[]
  readonly body?: DescribedContent & { readonly description: string }
  /** Responses that are no errors, by status. */
  readonly answers: Readonly<Record<number, Answer>>
  /** Errors besides those of every similar endpoint, with the details of their examples. */
  readonly refusals?: Readonly<Partial<Record<ErrorCode, ErrorDetails>>>
}

/** A heading under which operations stand together. */
export interface Tag {
  readonly name: string
  readonly description: string
}

export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required?: boolean
  readonly description: string
  readonly schema: JsonSchema
  readonly example?: unknown
}

export interface Header {
  readonly description: string
  /** Whether it is on every response that lists it. */
  readonly required?: boolean
  readonly schema: JsonSchema
  readonly example?: unknown
}

export interface Answer {
  readonly description: string
  /** Added to the headers of every response, or replacing them. */
  readonly headers?: Readonly<Record<string, Header>>
  /** By media type. */
  readonly content?: Readonly<Record<string, DescribedContent>>
}

export interface DescribedContent {
  readonly schema: JsonSchema
  readonly examples: Readonly<Record<string, Example>>
}

export interface Example {
  readonly summary: string
  readonly value: unknown
}
