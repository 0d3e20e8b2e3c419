import { isRegExp } from 'node:util/types'
import { maskCredentials } from '../../config/url-parts.ts'
import { durationMs } from '../../config/values.ts'
import { OperatorError } from '../../errors.ts'
import { type CheckedLimits, keysOf, RULE_KINDS, type RuleKind } from '../../limits/kinds/kinds.ts'
import { findWarnings } from '../../limits/kinds/rule-warnings.ts'
import { readLimits } from '../../wiring/open-limits.ts'
import { readConfig } from '../terminal/read-config.ts'
import { notify, type Outcome, type Terminal, textInWords } from '../terminal/terminal.ts'

/**
 * The rules of a file with their defaults, in the order in which a request meets them; warnings go to standard error. Throws
 * `OperatorError` with a line for each mistake.
 */
export async function checkLimitsFile(terminal: Terminal, file: string): Promise<Outcome> {
  const config = readConfig(terminal)
  const limits = await readLimitsFile(file)
  for (const warning of findWarnings(limits, config)) {
    notify(terminal, `warning: ${warning}`)
  }
  const rules = plainRules(limits)
  return { lines: describeFile(file, rules), json: rules }
}

/** The rules of a file that a command was given. Throws `OperatorError` with a line for each mistake. */
export async function readLimitsFile(file: string): Promise<CheckedLimits> {
  const name = textInWords(maskCredentials(file))
  if (!/\.(?:json|m?js)$/.test(file)) {
    throw new OperatorError([`${name}: it may be a .json file or an ES module (.js, .mjs)`])
  }
  return readLimits(file, mistakes => mistakes.map(mistake => `${name}: ${mistake}`))
}

function describeFile(file: string, rules: readonly PlainRule[]): readonly string[] {
  if (rules.length === 0) return [`${textInWords(file)} holds no rules`]
  const count = rules.length === 1 ? '1 rule' : `${rules.length} rules, asked in this order`
  return [`${textInWords(file)} holds ${count}`, ...rules.map(describeRule)]
}

function describeRule({ kind, name, ...members }: PlainRule): string {
  const words = Object.entries(members).map(([key, value]) => {
    if (key.endsWith('_ms')) return `${key.slice(0, -'_ms'.length)} ${Number(value) / 1000} s`
    return `${key} ${typeof value === 'string' ? textInWords(value) : JSON.stringify(value)}`
  })
  return `${kind} ${JSON.stringify(name)}: ${words.join(', ') || 'every request'}`
}

/** What a rule has where the file says nothing else, if its kind has the key. */
const DEFAULTS = { by: 'ip', mode: 'allow2ban', with: { status: 429 }, dryRun: false }

const TIMES = ['findtime', 'period', 'within', 'bantime']

/** A rule as `--json` prints it. */
interface PlainRule extends Readonly<Record<string, unknown>> {
  readonly kind: RuleKind
}

/**
 * The rules as plain JSON, in the order in which a request meets them. Each has its kind and its defaults. Times are in
 * milliseconds under names such as `period_ms`, `actions` replaces `only` and `except`, and functions are the text
 * `[function]`.
 */
function plainRules(limits: CheckedLimits): readonly PlainRule[] {
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
