import type { CheckedLimits } from './rules/rules-schema.ts'
import { RULE_KINDS } from './rules/rules-schema.ts'

/** The difference between two sets of rules; rules by kind and name, as in `throttle "posts"`. */
export interface RuleChanges {
  readonly came: readonly string[]
  readonly went: readonly string[]
  readonly changed: readonly string[]
}

export function compareRules(previous: CheckedLimits, current: CheckedLimits): RuleChanges {
  const before = textsByRule(previous)
  const after = textsByRule(current)
  const isChanged = (rule: string) => before.has(rule) && before.get(rule) !== after.get(rule)
  return {
    came: [...after.keys()].filter(rule => !before.has(rule)),
    went: [...before.keys()].filter(rule => !after.has(rule)),
    changed: [...after.keys()].filter(isChanged),
  }
}

function textsByRule(limits: CheckedLimits): ReadonlyMap<string, string> {
  return new Map(
    RULE_KINDS.flatMap(kind =>
      limits[kind].map(
        rule => [`${kind} ${JSON.stringify(rule.name)}`, textOf(rule.source)] as const,
      ),
    ),
  )
}

/** Text that differs for different rules. Functions are compared by their code. */
function textOf(value: unknown): string {
  if (typeof value === 'function' || value instanceof RegExp) return String(value)
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined'
  const entries = Object.entries(value).map(
    ([key, item]) => `${JSON.stringify(key)}:${textOf(item)}`,
  )
  return Array.isArray(value) ? `[${entries}]` : `{${entries.sort()}}`
}
