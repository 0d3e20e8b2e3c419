import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { nearest } from '../../config/did-you-mean.ts'
import { decodeFile, OperatorError, readFailureInWords } from '../../errors.ts'
import { importModule } from '../../platform/import-module.ts'
import { isObject } from '../../platform/json.ts'
import { type JsonPath, type LocatedJson, locateJson } from '../../platform/json-lines.ts'
import { clearTimeout, setTimeout } from '../../platform/timers.ts'
import { type CheckedLimits, KINDS, keysOf, RULE_KINDS, type RuleKind } from './kinds.ts'

/**
 * The rules in a `.json` file, or in the default export of an ES module. The module is read again each time, but its imports
 * are not. Rejects with `OperatorError` with a line for each mistake.
 */
export async function loadLimits(path: string): Promise<CheckedLimits> {
  return path.endsWith('.json')
    ? checkJson(await readText(path))
    : checkLimits((await readModule(path)).default)
}

async function readText(path: string): Promise<string> {
  const bytes = await readFile(path).catch(cause => {
    throw unreadable(cause)
  })
  return decodeFile(bytes, why => new OperatorError([`the file ${why}`]))
}

function checkJson(text: string): CheckedLimits {
  const json = locateJson(text)
  let rules: unknown
  try {
    rules = JSON.parse(text)
  } catch (cause) {
    throw unreadable(cause, json.faultLine === undefined ? undefined : `line ${json.faultLine}`)
  }
  return checkLimits(rules, json)
}

const MODULE_PATIENCE_MS = 10_000

let readings = 0

async function readModule(path: string): ReturnType<typeof importModule> {
  // Node caches modules by URL, so each reading needs a new one.
  const url = `${pathToFileURL(resolve(path)).href}?reading=${++readings}`
  try {
    return await awaitModule(importModule(url))
  } catch (cause) {
    throw unreadable(cause)
  }
}

/** A module may await something that never happens. The timer keeps the process alive until the time is over. */
async function awaitModule<T>(module: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const tooLate = new Promise<never>((_resolve, reject) => {
    const reason = `after ${MODULE_PATIENCE_MS / 1000} seconds it still awaits something`
    timer = setTimeout(() => reject(new Error(reason)), MODULE_PATIENCE_MS)
  })
  try {
    return await Promise.race([module, tooLate])
  } finally {
    clearTimeout(timer)
  }
}

function unreadable(cause: unknown, place?: string): OperatorError {
  const { code, message = String(cause), syscall } = Object(cause) as Partial<NodeJS.ErrnoException>
  const parts = syscall === undefined ? [place, code, message] : [readFailureInWords(cause)]
  const reason = parts.filter(part => part !== undefined).join(': ')
  return new OperatorError([`the file cannot be read (${reason.replace(/\s+/g, ' ')})`], { cause })
}

interface Mistake {
  readonly at: JsonPath
  readonly text: string
}

/**
 * Compiles the rules of a limits file. Throws `OperatorError` with a line for each mistake, which names rule and key, and for JSON
 * begins with the line number in the file.
 */
export function checkLimits(value: unknown, json?: LocatedJson): CheckedLimits {
  // A promise is an object too, and would pass for a file without rules.
  if (!isObject(value) || 'then' in value)
    throw new OperatorError(['the file must hold an object of rules'])
  const unknown = Object.keys(value).filter(key => !Object.hasOwn(KINDS, key))
  const mistakes: Mistake[] = [
    ...(json?.repeated ?? []).map(at => ({ at, text: givenTwice(at) })),
    ...unknown.map(key => ({ at: [key], text: unknownKey(key, RULE_KINDS) })),
  ]
  const checked = RULE_KINDS.map(kind => {
    const rules = Object.hasOwn(value, kind) ? value[kind] : undefined
    return [kind, checkRules(kind, rules, mistakes)]
  })
  if (mistakes.length === 0) return Object.fromEntries(checked) as CheckedLimits
  throw new OperatorError(
    mistakes.map(({ at, text }) => {
      const place = json === undefined ? '' : `line ${json.lineOf(at)}: `
      return `${place}${onOneLine(text)}`
    }),
  )
}

/** The valid rules of a kind. */
function checkRules(kind: RuleKind, rules: unknown, mistakes: Mistake[]): readonly object[] {
  if (rules === undefined) return []
  if (!Array.isArray(rules)) {
    mistakes.push({ at: [kind], text: `${kind}: must be a list of rules` })
    return []
  }
  const { type, schema } = KINDS[kind]
  const names = new Set<string>()
  return rules.flatMap((given: unknown, index) => {
    const place = `${kind}[${index}]`
    const rule = isObject(given) && given.name === undefined ? { ...given, name: place } : given
    const name = isObject(rule) && typeof rule.name === 'string' ? rule.name : place
    const label = name === place ? place : `${place} ${JSON.stringify(name)}`
    const addMistake = (at: JsonPath, text: string) =>
      mistakes.push({ at: [kind, index, ...at], text: `${label}: ${text}` })
    const { data, error } = schema.safeParse(rule)
    for (const issue of error?.issues ?? []) {
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
    if (names.has(name)) addMistake(['name'], `name is given twice in ${kind}`)
    names.add(name)
    return data === undefined ? [] : { ...data, type, name, source: rule }
  })
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
