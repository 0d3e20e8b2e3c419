import { readFileSync } from 'node:fs'
import { readFailureInWords } from '../errors.ts'
import type { Environment } from './values.ts'

/**
 * NAME=value, where `export ` may stand before it and a comment behind it. A # begins a comment only after a blank or a quote:
 * programs differ in how they read it elsewhere.
 */
const SETTING =
  /^(?:export\s+)?([\w.-]+)\s*=\s*(?:(?:"([^"]*)"|'([^']*)'|`([^`]*)`)?\s*(?:#.*)?|([^\s"'`#][^#]*?)(?:\s+#.*)?)$/

/** Reads a `.env` file. A missing one sets nothing. `problems` has a line for each line that is wrong, or for the file. */
export function readEnvFile(path: string) {
  const problems: string[] = []
  const values: [name: string, text: string][] = []
  for (const [index, line] of readLines(path, problems).entries()) {
    const [, name, ...texts] = SETTING.exec(line.trim()) ?? []
    if (name !== undefined) values.push([name, texts.find(text => text !== undefined) ?? ''])
    else if (!/^\s*(?:#|$)/.test(line)) {
      const mayBe =
        'NAME=value, a comment (#) or blank, with quotes around a value that has a quote or a #'
      problems.push(`${path}, line ${index + 1}: it must be ${mayBe}`)
    }
  }
  return { values: Object.fromEntries(values), problems }
}

function readLines(path: string, problems: string[]): string[] {
  try {
    return readText(path).split(/\r\n|\r|\n/)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    const why = readFailureInWords(error)
    problems.push(`${path} cannot be read (${why}); it must be a file of NAME=value lines`)
    return []
  }
}

/** Settings that may be in a file, as Docker and Kubernetes hand over secrets. */
const SECRETS = ['DATABASE_URL', 'REDIS_URL', 'MANAGEMENT_TOKEN'] as const

const MAY_BE = 'the path of a file that holds the value'

/** The variables that name these files. */
export const FILE_VARIABLES = SECRETS.map(name => `${name}_FILE` as const)

/**
 * The variables of one place, with the values of those that are in files. `problems` has a line for each file that cannot be read,
 * is empty or has several lines, and for each setting that is there in both forms. A line end after a value does not count. A path
 * is relative to the working directory. Nothing is read for a setting that `stronger` has, in either form.
 */
export function readSecretFiles(variables: Environment, place: string, stronger: Environment = {}) {
  const problems: string[] = []
  const secrets: Record<string, string> = {}
  for (const name of SECRETS) {
    const variable = `${name}_FILE`
    const path = variables[variable]
    if (!path || stronger[name] || stronger[variable]) continue
    const refuse = (why: string) =>
      problems.push(`${variable} was ${JSON.stringify(path)}, but ${why}; it may be ${MAY_BE}`)
    if (variables[name]) {
      refuse(`${name} is set in ${place} too: leave one of them out`)
      continue
    }
    try {
      const text = readText(path).replace(/\r?\n$/, '')
      if (text === '') refuse('the file is empty')
      else if (text.includes('\n')) refuse('the file has several lines')
      else secrets[name] = text
    } catch (error) {
      refuse(`it cannot be read (${readFailureInWords(error)})`)
    }
  }
  return { values: { ...variables, ...secrets }, problems }
}

/** Without the byte order mark that editors on Windows put first. */
function readText(path: string): string {
  return new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
}
