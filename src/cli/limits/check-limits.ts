import { OperatorError } from '../../errors.ts'
import { describeRules, plainRules, textInWords } from '../../limits/rules/describe-rules.ts'
import { findWarnings } from '../../limits/rules/rule-warnings.ts'
import type { CheckedLimits } from '../../limits/rules/rules-schema.ts'
import { RULE_KINDS } from '../../limits/rules/rules-schema.ts'
import { readLimits, ruleSurroundings } from '../../open-limits.ts'
import { EXIT, notify, print, printJson, readConfig, type Terminal } from '../terminal/terminal.ts'

/**
 * Prints the rules of a file with their defaults, in the order in which a request meets them; warnings go to standard
 * error. Throws `OperatorError` with a line for each mistake.
 */
export async function checkLimitsFile(
  terminal: Terminal,
  { file, asJson }: { readonly file: string; readonly asJson: boolean },
): Promise<number> {
  const surroundings = ruleSurroundings(readConfig(terminal))
  const limits = await readLimitsFile(file)
  for (const warning of findWarnings(limits, surroundings)) {
    notify(terminal, `warning: ${warning}`)
  }
  await (asJson
    ? printJson(terminal, plainRules(limits))
    : print(terminal, describeFile(file, limits)))
  return EXIT.done
}

/** The rules of a file that a command was given. Throws `OperatorError` with a line for each mistake. */
export async function readLimitsFile(file: string): Promise<CheckedLimits> {
  const name = textInWords(file)
  if (!/\.(?:json|m?js)$/.test(file)) {
    throw new OperatorError([`${name}: it may be a .json file or an ES module (.js, .mjs)`])
  }
  return readLimits(file, mistake => `${name}: ${mistake}`)
}

function describeFile(file: string, limits: CheckedLimits): string {
  const rules = describeRules(limits)
  if (rules.length === 0) return `${textInWords(file)} holds no rules`
  const count = rules.length === 1 ? '1 rule' : `${rules.length} rules, asked in this order`
  const parts = RULE_KINDS.map(kind => {
    const ofKind = rules.filter(rule => rule.kind === kind)
    const lines = ofKind.map(({ name, words }) => `  ${JSON.stringify(name)}: ${words}`)
    return ofKind.length === 0 ? '' : `\n\n${kind}\n${lines.join('\n')}`
  })
  return `${textInWords(file)} holds ${count}${parts.join('')}`
}
