import { z } from 'zod'
import type { JsonSchema, Parameter } from './operation.ts'

/** What clients may send where a zod schema validates it. */
export function toJsonSchema(schema: z.ZodType, io: 'input' | 'output' = 'input'): JsonSchema {
  const { $schema: _dialect, ...json } = z.toJSONSchema(schema, {
    io,
    // What its own metadata says of it then stands alone.
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

/** The parameters of a query that a schema of text validates, each as the value it becomes. */
export function queryParametersOf(schema: z.ZodObject): readonly Parameter[] {
  const { properties } = toJsonSchema(schema, 'output') as {
    properties: Record<string, JsonSchema>
  }
  return Object.entries(properties).map(([name, property]) => {
    const { description, examples, ...rest } = property as JsonSchema & {
      description: string
      examples?: readonly unknown[]
    }
    const [example] = examples ?? []
    return {
      name,
      in: 'query',
      description,
      schema: rest,
      ...(example !== undefined && { example }),
    }
  })
}
