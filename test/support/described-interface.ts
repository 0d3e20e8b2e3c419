import type { AnySchema, ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import addFormats from 'ajv-formats'

type Json = Readonly<Record<string, unknown>>

interface DescribedContent {
  readonly schema: Json
  /** By the reason of the error. */
  readonly examples?: Readonly<Record<string, { readonly value: Json }>>
}

export interface DescribedResponse {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly required?: boolean; schema: Json }>>
  readonly content?: Readonly<Record<string, DescribedContent>>
}

export interface DescribedOperation {
  readonly operationId: string
  readonly responses: Readonly<Record<string, DescribedResponse>>
}

/** An OpenAPI document with its references resolved, except those within schemas. */
export interface DescribedInterface {
  /** By path and method. */
  readonly paths: Readonly<Record<string, Readonly<Record<string, DescribedOperation>>>>
  readonly schemas: Readonly<Record<string, Json>>
  /** Compiles a schema of the document in strict mode. With `closed` it rejects properties that it does not name. */
  compile(schema: Json, options?: { readonly closed: boolean }): ValidateFunction
}

export function followReferences(document: unknown): DescribedInterface {
  const { components, paths } = document as {
    readonly components: Readonly<Record<string, Readonly<Record<string, Json>>>>
    readonly paths: Json
  }
  const schemas = components.schemas ?? {}
  const compilers = [false, true].map(closed => createCompiler(schemas, closed))

  function follow(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map(follow)
    const { $ref } = value as { $ref?: string }
    if ($ref === undefined || $ref.startsWith('#/components/schemas/')) {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, follow(item)]))
    }
    const [, , kind = '', name = ''] = $ref.split('/')
    const target = components[kind]?.[name]
    if (target === undefined) throw new Error(`${$ref} leads nowhere`)
    return follow(target)
  }

  return {
    paths: follow(paths) as DescribedInterface['paths'],
    schemas,
    compile: (schema, { closed } = { closed: false }) => {
      const compile = compilers[Number(closed)] as (schema: Json) => ValidateFunction
      return compile(schema)
    },
  }
}

/** The names of all response headers of an OpenAPI document. */
export function responseHeadersIn(document: unknown): string[] {
  const { paths } = followReferences(document)
  const responses = Object.values(paths)
    .flatMap(item => Object.values(item))
    .flatMap(operation => Object.values(operation.responses))
  return [...new Set(responses.flatMap(({ headers = {} }) => Object.keys(headers)))]
}

const BASE = 'https://interface.example/'

function createCompiler(schemas: Json, closed: boolean): (schema: Json) => ValidateFunction {
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true })
  addFormats.default(ajv)
  ajv.addSchema(prepared({ $id: BASE, $defs: schemas }, closed) as AnySchema)
  const compiled = new Map<string, ValidateFunction>()
  return schema => {
    const text = JSON.stringify(schema)
    const validate = compiled.get(text) ?? ajv.compile(prepared(schema, closed) as AnySchema)
    compiled.set(text, validate)
    return validate
  }
}

function prepared(value: unknown, closed: boolean): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(item => prepared(item, closed))
  const entries = Object.entries(value).map(([key, item]) =>
    key === '$ref'
      ? [key, `${BASE}#/$defs/${String(item).split('/').at(-1)}`]
      : [key, prepared(item, closed)],
  )
  const isOpen = 'properties' in value && !('additionalProperties' in value)
  return Object.fromEntries(
    closed && isOpen ? [...entries, ['unevaluatedProperties', false]] : entries,
  )
}
