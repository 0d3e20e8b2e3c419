import type { CheckedLimits, RuleKind } from './rules-schema.ts'
import { RULE_KINDS } from './rules-schema.ts'

const DEFAULTS: Readonly<Record<RuleKind, object>> = {
  safelist: {},
  blocklist: { dryRun: false },
  bans: { by: 'ip', mode: 'allow2ban', dryRun: false },
  throttle: { by: 'ip', with: { status: 429 }, dryRun: false },
  track: { by: 'ip', dryRun: false },
  rateLimits: { by: 'ip', with: { status: 429 }, dryRun: false },
}

/** The field of a compiled rule that holds a time of the file, in milliseconds. */
const COMPILED_TIMES: Readonly<Record<string, string>> = {
  findtime: 'windowMs',
  period: 'windowMs',
  within: 'windowMs',
  bantime: 'banMs',
}

/**
 * The rules as plain JSON, in the order in which a request meets them. Each has its kind and its defaults. Times are in
 * milliseconds under names such as `period_ms`, `actions` replaces `only` and `except`, and functions are the text
 * `[function]`.
 */
export function plainRules(limits: CheckedLimits): readonly object[] {
  return RULE_KINDS.flatMap(kind => limits[kind].map(rule => toPlainRule(kind, rule)))
}

function toPlainRule(kind: RuleKind, rule: CheckedLimits[RuleKind][number]): object {
  const members = Object.entries({ ...DEFAULTS[kind], ...rule.source })
    .filter(([key]) => key !== 'only' && key !== 'except')
    .map(([key, value]) => {
      const time = COMPILED_TIMES[key]
      const isTime = time !== undefined && typeof value !== 'function'
      return isTime ? [`${key}_ms`, rule[time as keyof typeof rule]] : [key, toPlain(value)]
    })
  return {
    kind,
    ...Object.fromEntries(members),
    ...('actions' in rule && { actions: rule.actions }),
  }
}

function toPlain(value: unknown): unknown {
  if (typeof value === 'function') return '[function]'
  if (value instanceof RegExp) return { regex: value.source, flags: value.flags }
  if (Array.isArray(value)) return value.map(toPlain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toPlain(item)]))
}
