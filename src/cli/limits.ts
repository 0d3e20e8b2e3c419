import { type Environment, loadConfig } from '../config.ts'
import { OperatorError } from '../errors.ts'
import { describeRules, KINDS_IN_ORDER } from '../limits/describe-rules.ts'
import { LimitsRefused, loadLimits } from '../limits/load-limits.ts'
import { plainRules } from '../limits/plain-rules.ts'
import { warnAbout } from '../limits/rule-warnings.ts'
import { textInWords } from '../limits/rule-words.ts'
import type { CheckedLimits } from '../limits/rules-schema.ts'
import { EXIT } from './command-context.ts'
import { print } from './print.ts'

/**
 * Prints the rules of a file as they were understood, in the order in which they are asked; warnings go to standard
 * error. Throws `OperatorError` with a line for each mistake.
 */
export async function checkLimitsFile(
  environment: Environment,
  { file, asJson }: { readonly file: string; readonly asJson: boolean },
): Promise<number> {
  const { cacheStore } = loadConfig(environment)
  const limits = await readLimitsFile(file)
  for (const warning of warnAbout(limits, { isCounting: cacheStore !== 'none' })) {
    console.error(`warning: ${warning}`)
  }
  await print(asJson ? JSON.stringify(plainRules(limits), undefined, 2) : inWords(file, limits))
  return EXIT.done
}

/** The rules of a file that a command was given. */
export async function readLimitsFile(file: string): Promise<CheckedLimits> {
  const name = textInWords(file)
  if (!/\.(?:json|m?js)$/.test(file)) {
    throw new OperatorError([`${name}: it may be a .json file or an ES module (.js, .mjs)`])
  }
  try {
    return await loadLimits(file)
  } catch (error) {
    if (!(error instanceof LimitsRefused)) throw error
    throw new OperatorError(error.mistakes.map(mistake => `${name}: ${mistake}`))
  }
}

function inWords(file: string, limits: CheckedLimits): string {
  const rules = describeRules(limits)
  if (rules.length === 0) return `${textInWords(file)} holds no rules`
  const count = rules.length === 1 ? '1 rule' : `${rules.length} rules, asked in this order`
  const parts = KINDS_IN_ORDER.map(kind => {
    const ofKind = rules.filter(rule => rule.kind === kind)
    const lines = ofKind.map(({ name, words }) => `  ${JSON.stringify(name)}: ${words}`)
    return ofKind.length === 0 ? '' : `\n\n${kind}\n${lines.join('\n')}`
  })
  return `${textInWords(file)} holds ${count}${parts.join('')}`
}
