import { z } from 'zod'
import { component, type JsonSchema, type Parameter } from './operation.ts'

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

type DescribedSchema = JsonSchema & {
  readonly description: string
  readonly examples: readonly unknown[]
}

/**
 * The parameters of a query that a schema of text validates, each as the value it becomes. Their metadata has a description
 * and an example of each.
 */
export function queryParametersOf(schema: z.ZodObject): readonly Parameter[] {
  const { properties } = toJsonSchema(schema, 'output') as {
    properties: Record<string, JsonSchema>
  }
  return Object.entries(properties).map(([name, property]) => {
    const { description, examples, ...rest } = property as DescribedSchema
    const [example] = examples
    const parameter = { name, in: 'query', description, schema: rest, example } as const
    return component('parameters', pascalCase(name), parameter)
  })
}

/** `PerPage` of `per_page`, `UsersById` of `users-by-id`. */
export function pascalCase(name: string): string {
  const words = name.match(/[A-Za-z]+/g) ?? []
  return words.map(word => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('')
}
