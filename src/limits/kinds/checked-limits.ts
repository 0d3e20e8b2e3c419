import { nearest } from '../../config/did-you-mean.ts'
import { isObject } from '../../platform/json.ts'
import type { JsonPath, LocatedJson } from '../../platform/json-lines.ts'
import { type CheckedLimits, KINDS, keysOf, RULE_KINDS, type RuleKind } from './kinds.ts'

interface Mistake {
  readonly at: JsonPath
  readonly text: string
}

/**
 * Compiles the rules of a limits file, or returns a line for each mistake, which names rule and key. For JSON the lines begin
 * with the line number in the file.
 */
export function checkLimits(
  value: unknown,
  json?: Pick<LocatedJson, 'lineOf' | 'repeated'>,
): { readonly limits: CheckedLimits } | { readonly mistakes: readonly string[] } {
  // A promise is an object too, and would pass for a file without rules.
  if (!isObject(value) || 'then' in value)
    return { mistakes: ['the file must hold an object of rules'] }
  const unknown = Object.keys(value).filter(key => !Object.hasOwn(KINDS, key))
  const mistakes: Mistake[] = [
    ...(json?.repeated ?? []).map(at => ({ at, text: givenTwice(at) })),
    ...unknown.map(key => ({ at: [key], text: unknownKey(key, RULE_KINDS) })),
  ]
  const checked = RULE_KINDS.map(kind => {
    const rules = Object.hasOwn(value, kind) ? value[kind] : undefined
    return [kind, checkRules(kind, rules, mistakes)]
  })
  if (mistakes.length === 0) return { limits: Object.fromEntries(checked) as CheckedLimits }
  return {
    mistakes: mistakes.map(({ at, text }) => {
      const place = json === undefined ? '' : `line ${json.lineOf(at)}: `
      return `${place}${onOneLine(text)}`
    }),
  }
}

/** The valid rules of a kind. */
function checkRules(kind: RuleKind, rules: unknown, mistakes: Mistake[]): readonly object[] {
  if (rules === undefined) return []
  if (!Array.isArray(rules)) {
    mistakes.push({ at: [kind], text: `${kind}: must be a list of rules` })
    return []
  }
  const names = new Set<string>()
  return rules.flatMap((rule: unknown, index) => {
    const place = `${kind}[${index}]`
    const given = isObject(rule) && typeof rule.name === 'string' ? rule.name : undefined
    const label = given === undefined ? place : `${place} ${JSON.stringify(given)}`
    const addMistake = (at: JsonPath, text: string) =>
      mistakes.push({ at: [kind, index, ...at], text: `${label}: ${text}` })
    const name = given ?? place
    const isNameless = isObject(rule) && rule.name === undefined
    const compiled = checkRule(kind, isNameless ? { ...rule, name } : rule, addMistake)
    if (names.has(name)) addMistake(['name'], `name is given twice in ${kind}`)
    names.add(name)
    return compiled
  })
}

/** A list with the compiled rule; empty if it has mistakes. */
function checkRule(
  kind: RuleKind,
  rule: unknown,
  addMistake: (at: JsonPath, text: string) => void,
): readonly object[] {
  const result = KINDS[kind].schema.safeParse(rule)
  if (result.success) {
    const { name } = rule as { readonly name: string }
    return [{ ...result.data, type: KINDS[kind].type, name, source: rule }]
  }
  for (const issue of result.error.issues) {
    if (issue.code === 'unrecognized_keys') {
      for (const key of issue.keys) addMistake([key], unknownKey(key, keysOf(kind)))
    } else if (issue.path.length === 0) {
      addMistake([], 'must be an object')
    } else {
      const isMissing = isObject(rule) && !Object.hasOwn(rule, String(issue.path[0]))
      const need = isMissing
        ? issue.message.replace(/^must be/, 'is missing: it must be')
        : issue.message
      addMistake(issue.path as JsonPath, `${issue.path.join('.')} ${need}`)
    }
  }
  return []
}

/** Two recipes, pasted one after the other, may each have a list of the same kind: `JSON.parse` keeps only the last. */
function givenTwice(at: JsonPath): string {
  const [kind, index, ...keys] = at
  const place = index === undefined ? '' : `${kind}[${index}]: `
  return `${place}${keys.length > 0 ? keys.join('.') : JSON.stringify(at.at(-1))} is given twice`
}

function unknownKey(key: string, known: readonly string[]): string {
  const meant = nearest(key, known)
  const hint = meant === undefined ? '' : `, did you mean ${JSON.stringify(meant)}?`
  return `unknown key ${JSON.stringify(key)}${hint}`
}

/** Names and keys may hold line breaks, and a mistake is one line. */
function onOneLine(mistake: string): string {
  return mistake.replace(/[\p{Cc}\u2028\u2029]/gu, char => JSON.stringify(char).slice(1, -1))
}
