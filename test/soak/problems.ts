const EXAMPLES = 5

/** What should not have happened: by kind, how often, and the first examples. */
export type Problems = ReturnType<typeof createProblems>

export function createProblems() {
  const byKind = new Map<string, { count: number; examples: string[] }>()
  return {
    byKind,
    note: (kind: string, example: string): void => {
      const found = byKind.get(kind) ?? { count: 0, examples: [] }
      byKind.set(kind, found)
      found.count++
      if (found.examples.length < EXAMPLES) {
        found.examples.push(`${new Date().toISOString()} ${example}`.slice(0, 500))
      }
    },
    count: () => [...byKind.values()].reduce((sum, { count }) => sum + count, 0),
  }
}
