import { actionsOf, KINDS_IN_ORDER } from './describe-rules.ts'
import { type CheckedLimits, durationMs } from './rules-schema.ts'

const TIMES = ['findtime', 'bantime', 'period', 'within']

const DEFAULTS: Readonly<Record<(typeof KINDS_IN_ORDER)[number], object>> = {
  safelist: {},
  blocklist: { dryRun: false },
  bans: { by: 'ip', mode: 'allow2ban', dryRun: false },
  throttle: { by: 'ip', with: { status: 429 }, dryRun: false },
  track: { by: 'ip', dryRun: false },
  rateLimits: { by: 'ip', with: { status: 429 }, dryRun: false },
}

/**
 * The rules for programs, in the order in which they are asked: with their kind, defaults filled in, times in milliseconds
 * under names such as `periodMs`, `actions` in place of `only` and `except`, and functions as the text `[function]`.
 */
export function plainRules(limits: CheckedLimits): readonly object[] {
  return KINDS_IN_ORDER.flatMap(kind =>
    limits[kind].map(rule => {
      const { only: _only, except: _except, ...own } = rule as CheckedLimits['rateLimits'][number]
      const entries = Object.entries({ ...DEFAULTS[kind], ...own }).map(([key, value]) =>
        TIMES.includes(key) && typeof value !== 'function'
          ? [`${key}Ms`, durationMs(value)]
          : [key, plain(value)],
      )
      const actions = kind === 'rateLimits' && { actions: actionsOf(rule as never) }
      return { kind, ...Object.fromEntries(entries), ...actions }
    }),
  )
}

function plain(value: unknown): unknown {
  if (typeof value === 'function') return '[function]'
  if (value instanceof RegExp) return { regex: value.source, flags: value.flags }
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, plain(item)]))
}
