import { maskCredentials } from '../../config/url-parts.ts'
import { OperatorError } from '../../errors.ts'
import { type PlainRule, plainRules } from '../../limits/kinds/describe-rules.ts'
import type { CheckedLimits } from '../../limits/kinds/kinds.ts'
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
