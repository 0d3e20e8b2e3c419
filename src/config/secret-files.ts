import { readFileSync } from 'node:fs'
import { readFailureInWords } from '../errors.ts'
import type { Environment } from './values.ts'

/** Settings that may be in a file, as Docker and Kubernetes hand over secrets. */
const SECRETS = ['DATABASE_URL', 'REDIS_URL', 'MANAGEMENT_TOKEN'] as const

const MAY_BE = 'the path of a file that holds the value'

/** The variables that name these files. */
export const FILE_VARIABLES = SECRETS.map(name => `${name}_FILE` as const)

/**
 * The variables of one place, with the values of those that are in files. `problems` has a line for each file that cannot be read
 * or is empty, and for each setting that is there in both forms. A path is relative to the working directory.
 */
export function readSecretFiles(variables: Environment, place: string) {
  const problems: string[] = []
  const secrets: Record<string, string> = {}
  for (const name of SECRETS) {
    const variable = `${name}_FILE`
    const path = variables[variable]
    if (path === undefined || path === '') continue
    const refuse = (why: string) =>
      problems.push(`${variable} was ${JSON.stringify(path)}, but ${why}; it may be ${MAY_BE}`)
    if (variables[name]) refuse(`${name} is set in ${place} too: leave one of them out`)
    else {
      const text = readSecret(path, refuse)
      if (text === '') refuse('the file is empty')
      else if (text !== undefined) secrets[name] = text
    }
  }
  return { values: { ...variables, ...secrets }, problems }
}

/** The text of a file without its line end. */
function readSecret(path: string, refuse: (why: string) => void): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
    return text.replace(/\r?\n$/, '')
  } catch (error) {
    refuse(`it cannot be read (${readFailureInWords(error)})`)
    return undefined
  }
}
