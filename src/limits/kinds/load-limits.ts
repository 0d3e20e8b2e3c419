import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { decodeFile, OperatorError, readFailureInWords } from '../../errors.ts'
import { clearTimeout, setTimeout } from '../../platform/timers.ts'
import { importModule } from '../rules/import-module.ts'
import { type JsonPath, type LineOf, locateJson } from '../rules/json-lines.ts'
import { checkLimits } from './checked-limits.ts'
import type { CheckedLimits } from './kinds.ts'

const MODULE_PATIENCE_MS = 10_000

let readings = 0

/**
 * The rules in a `.json` file, or in the default export of an ES module. The module is read again each time, but its imports
 * are not. Rejects with `OperatorError` with a line for each mistake.
 */
export async function loadLimits(path: string): Promise<CheckedLimits> {
  const read = path.endsWith('.json') ? parseJson(await readText(path)) : await readModule(path)
  const checked = checkLimits(read.rules, read.lineOf)
  const mistakes = [...repeatedMembers(read), ...('mistakes' in checked ? checked.mistakes : [])]
  if (mistakes.length > 0 || 'mistakes' in checked) throw new OperatorError(mistakes)
  return checked.limits
}

async function readText(path: string): Promise<string> {
  const bytes = await readFile(path).catch(cause => {
    throw unreadable(cause)
  })
  return decodeFile(bytes, why => new OperatorError([`the file ${why}`]))
}

/** Two recipes, pasted one after the other, may each have a list of the same kind: `JSON.parse` keeps only the last. */
function repeatedMembers({ repeated = [], lineOf }: ReadRules): string[] {
  return repeated.map(path => {
    const [kind, index, ...keys] = path
    const place = index === undefined ? '' : `${kind}[${index}]: `
    const name = keys.length > 0 ? keys.join('.') : JSON.stringify(path.at(-1))
    return `line ${lineOf?.(path)}: ${place}${name} is given twice`
  })
}

interface ReadRules {
  readonly rules: unknown
  /** Known for JSON only. */
  readonly lineOf?: LineOf | undefined
  readonly repeated?: readonly JsonPath[]
}

function parseJson(text: string): ReadRules {
  const { faultLine, ...located } = locateJson(text)
  try {
    return { rules: JSON.parse(text), ...located }
  } catch (cause) {
    throw unreadable(cause, faultLine === undefined ? undefined : `line ${faultLine}`)
  }
}

async function readModule(path: string): Promise<ReadRules> {
  // Node caches modules by URL, so each reading needs a new one.
  const url = `${pathToFileURL(resolve(path)).href}?reading=${++readings}`
  try {
    const module = await awaitModule(importModule(url))
    return { rules: module.default }
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
