import type { ErrorCode, ErrorDetails } from '../errors.ts'

/** JSON Schema 2020-12, as OpenAPI 3.1 has it. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** What an endpoint takes and answers, for the document of the interface. */
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
  /** Successes, and whatever else is no error, by status. */
  readonly answers: Readonly<Record<number, Answer>>
  /** Errors of its own, beyond those of every endpoint of its kind, each as in its example. */
  readonly refusals?: Readonly<Partial<Record<ErrorCode, ErrorDetails>>>
}

/** Under which operations stand together. */
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
  /** Whether it is on every answer that names it. */
  readonly required?: boolean
  readonly schema: JsonSchema
  readonly example?: unknown
}

export interface Answer {
  readonly description: string
  /** Besides those that every answer bears, or in their place. */
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

type ComponentKind = 'schemas' | 'headers' | 'parameters' | 'responses'

interface ComponentPlace {
  readonly kind: ComponentKind
  readonly name: string
}

const PLACE = Symbol('place of a component')

const DESCRIPTION = Symbol('description where it is used')

/** The same value, to stand once under `components` and to be referred to wherever it is used. A spread copy of it is none. */
export function component<T extends object>(kind: ComponentKind, name: string, value: T): T {
  return Object.defineProperty({ ...value }, PLACE, { value: { kind, name } })
}

/** A component that says something of its own where it is used. */
export function describedHere<T extends object>(value: T, description: string): T {
  const { [PLACE]: place } = value as { [PLACE]?: ComponentPlace }
  return Object.defineProperties(
    { ...value },
    { [PLACE]: { value: place }, [DESCRIPTION]: { value: description } },
  )
}

/** A document with references in place of its components, and those components, by kind and name. */
export function withReferences(document: unknown): {
  readonly document: unknown
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>
} {
  const components: Record<string, Record<string, unknown>> = {}
  const sources = new Map<string, { readonly place: ComponentPlace; readonly value: object }>()

  function visit(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map(visit)
    const place = (value as { [PLACE]?: ComponentPlace })[PLACE]
    if (place === undefined) return visitEntries(value)
    const { [DESCRIPTION]: description } = value as { [DESCRIPTION]?: string }
    return { $ref: refer(place, value), ...(description !== undefined && { description }) }
  }

  function visitEntries(value: object): unknown {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, visit(item)]))
  }

  function refer(place: ComponentPlace, value: object): string {
    const { kind, name } = place
    const reference = `#/components/${kind}/${name}`
    const known = sources.get(reference)
    if (known === undefined) {
      sources.set(reference, { place, value })
      const visited = visitEntries(value)
      components[kind] = { ...components[kind], [name]: visited }
    } else if (known.place !== place && JSON.stringify(known.value) !== JSON.stringify(value)) {
      throw new Error(`two components are called ${reference}`)
    }
    return reference
  }

  return { document: visit(document), components }
}
