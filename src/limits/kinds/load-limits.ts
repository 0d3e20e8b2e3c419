import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { decodeFile, OperatorError, readFailureInWords } from '../../errors.ts'
import { importModule } from '../../platform/import-module.ts'
import { locateJson } from '../../platform/json-lines.ts'
import { clearTimeout, setTimeout } from '../../platform/timers.ts'
import { checkLimits } from './checked-limits.ts'
import type { CheckedLimits } from './kinds.ts'

/**
 * The rules in a `.json` file, or in the default export of an ES module. The module is read again each time, but its imports
 * are not. Rejects with `OperatorError` with a line for each mistake.
 */
export async function loadLimits(path: string): Promise<CheckedLimits> {
  const checked = path.endsWith('.json')
    ? checkJson(await readText(path))
    : checkLimits((await readModule(path)).default)
  if ('mistakes' in checked) throw new OperatorError(checked.mistakes)
  return checked.limits
}

async function readText(path: string): Promise<string> {
  const bytes = await readFile(path).catch(cause => {
    throw unreadable(cause)
  })
  return decodeFile(bytes, why => new OperatorError([`the file ${why}`]))
}

function checkJson(text: string) {
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
