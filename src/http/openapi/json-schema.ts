import { z } from 'zod'
import type { JsonSchema, Parameter } from '../operation.ts'
import { component } from './references.ts'

/** The JSON Schema of what a zod schema takes or gives. */
export function toJsonSchema(schema: z.ZodType, io: 'input' | 'output' = 'input'): JsonSchema {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, {
    io,
    // Its own metadata then describes it alone.
    unrepresentable: 'any',
    override: ({ jsonSchema }) => {
      const { anyOf } = jsonSchema
      const [text, nothing, ...others] = anyOf ?? []
      if (nothing?.type !== 'null' || others.length > 0 || text?.type !== 'string') return
      delete jsonSchema.anyOf
      Object.assign(jsonSchema, text, { ...jsonSchema, type: ['string', 'null'] })
    },
  })
  return json
}

/** The query parameters that a schema parses from text, each described by the value it becomes and by its metadata. */
export function queryParametersOf(schema: z.ZodObject): readonly Parameter[] {
  const { properties } = toJsonSchema(schema, 'output') as {
    properties: Record<string, JsonSchema & { readonly description: string }>
  }
  return Object.entries(properties).map(([name, { description, ...rest }]) =>
    component('parameters', pascalCase(name), { name, in: 'query', description, schema: rest }),
  )
}

/** `PerPage` of `per_page`. */
function pascalCase(name: string): string {
  const words = name.match(/[A-Za-z]+/g) ?? []
  return words.map(word => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
}
