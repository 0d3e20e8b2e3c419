type ComponentKind = 'schemas' | 'headers' | 'parameters' | 'responses'

interface ComponentName {
  readonly kind: ComponentKind
  readonly name: string
}

const COMPONENT = Symbol('component')

/** Marks a value that the document defines once, under `components`, and refers to elsewhere. A spread copy is not marked. */
export function component<T extends object>(kind: ComponentKind, name: string, value: T): T {
  return Object.defineProperty({ ...value }, COMPONENT, { value: { kind, name } })
}

/**
 * The document with references in place of its components, and these components by kind and name.
 * Throws for two different components of one name.
 */
export function withReferences(document: unknown): {
  readonly document: unknown
  readonly components: Readonly<Record<string, Readonly<Record<string, unknown>>>>
} {
  const components: Record<string, Record<string, unknown>> = {}
  const sources = new Map<string, { readonly component: ComponentName; readonly value: object }>()

  function visit(value: unknown): unknown {
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return value.map(visit)
    const name = (value as { [COMPONENT]?: ComponentName })[COMPONENT]
    return name === undefined ? visitEntries(value) : { $ref: refer(name, value) }
  }

  function visitEntries(value: object): unknown {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, visit(item)]))
  }

  function refer(component: ComponentName, value: object): string {
    const { kind, name } = component
    const reference = `#/components/${kind}/${name}`
    const known = sources.get(reference)
    if (known === undefined) {
      sources.set(reference, { component, value })
      const visited = visitEntries(value)
      components[kind] = { ...components[kind], [name]: visited }
    } else if (
      known.component !== component &&
      JSON.stringify(known.value) !== JSON.stringify(value)
    ) {
      throw new Error(`two components are called ${reference}`)
    }
    return reference
  }

  return { document: visit(document), components }
}
