import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type CheckedLimits, checkLimits } from './rules-schema.ts'

/** A limits file cannot be used, for each of these reasons. */
export class LimitsRefused extends Error {
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[], options?: ErrorOptions) {
    super(mistakes.join('\n'), options)
    this.name = 'LimitsRefused'
    this.mistakes = mistakes
  }
}

let readings = 0

/**
 * The rules in a `.json` file, or in the default export of an ES module, which is read anew each time, unlike
 * what it imports. Rejects with `LimitsRefused`.
 */
export async function loadLimits(path: string): Promise<CheckedLimits> {
  const { rules } = path.endsWith('.json') ? await readJson(path) : await importModule(path)
  const checked = checkLimits(rules)
  if ('mistakes' in checked) throw new LimitsRefused(checked.mistakes)
  return checked.limits
}

async function readJson(path: string): Promise<{ rules: unknown }> {
  try {
    const text = await readFile(path, 'utf8')
    // Editors of Windows begin a file with a byte order mark.
    return { rules: JSON.parse(text.replace(/^\ufeff/, '')) }
  } catch (cause) {
    throw unreadable(cause)
  }
}

async function importModule(path: string): Promise<{ rules: unknown }> {
  // Node keeps what it imported by its URL, so each reading asks for another one.
  const url = `${pathToFileURL(resolve(path)).href}?reading=${++readings}`
  try {
    const module: { default?: unknown } = await import(url)
    return { rules: module.default }
  } catch (cause) {
    throw unreadable(cause)
  }
}

function unreadable(cause: unknown): LimitsRefused {
  const { code, message = String(cause), syscall } = Object(cause) as Partial<NodeJS.ErrnoException>
  const parts = syscall === undefined ? [code, message] : [code]
  const reason = parts.filter(part => part !== undefined).join(': ')
  return new LimitsRefused([`the file cannot be read (${reason.replace(/\s+/g, ' ')})`], { cause })
}
