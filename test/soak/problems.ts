/** What should not have happened: by kind, how often, and the first examples. */
export interface Problems {
  note(kind: string, example: string): void
  /** Number of all so far. */
  count(): number
  list(): readonly { readonly kind: string; readonly count: number; readonly examples: string[] }[]
}

const EXAMPLES = 5

export function createProblems(): Problems {
  const byKind = new Map<string, { kind: string; count: number; examples: string[] }>()
  return {
    note: (kind, example) => {
      const found = byKind.get(kind) ?? { kind, count: 0, examples: [] }
      byKind.set(kind, found)
      found.count++
      if (found.examples.length < EXAMPLES) {
        found.examples.push(`${new Date().toISOString()} ${example}`.slice(0, 500))
      }
    },
    count: () => [...byKind.values()].reduce((sum, { count }) => sum + count, 0),
    list: () => [...byKind.values()],
  }
}
