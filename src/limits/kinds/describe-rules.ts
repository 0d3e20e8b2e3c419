import { isRegExp } from 'node:util/types'
import { durationMs } from '../../config/values.ts'
import { type CheckedLimits, keysOf, RULE_KINDS, type RuleKind } from './kinds.ts'

/** What a rule has where the file says nothing else, if its kind has the key. */
const DEFAULTS = { by: 'ip', mode: 'allow2ban', with: { status: 429 }, dryRun: false }

const TIMES = ['findtime', 'period', 'within', 'bantime']

/** A rule as `plainRules` returns it. */
export interface PlainRule extends Readonly<Record<string, unknown>> {
  readonly kind: RuleKind
}

/**
 * The rules as plain JSON, in the order in which a request meets them. Each has its kind and its defaults. Times are in
 * milliseconds under names such as `period_ms`, `actions` replaces `only` and `except`, and functions are the text
 * `[function]`.
 */
export function plainRules(limits: CheckedLimits): readonly PlainRule[] {
  return RULE_KINDS.flatMap(kind => {
    const keys = keysOf(kind).filter(key => key !== 'only' && key !== 'except')
    return limits[kind].map(rule => {
      const members = Object.entries({ ...rule.source, ...DEFAULTS, ...rule.source })
        .filter(([key]) => keys.includes(key))
        .map(([key, value]) => {
          const isTime = TIMES.includes(key) && typeof value !== 'function'
          return isTime ? [`${key}_ms`, durationMs(value)] : [key, toPlain(value)]
        })
      const actions = 'actions' in rule && { actions: rule.actions }
      return { kind, ...Object.fromEntries(members), ...actions }
    })
  })
}

function toPlain(value: unknown): unknown {
  if (typeof value === 'function') return '[function]'
  if (isRegExp(value)) return { regex: value.source, flags: value.flags }
  if (Array.isArray(value)) return value.map(toPlain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toPlain(item)]))
}
