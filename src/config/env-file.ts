import { readFileSync } from 'node:fs'
import type { Environment } from './values.ts'

/** What a `.env` file sets. */
export interface EnvFile {
  readonly values: Environment
  /** A line for the operator about each line that cannot be parsed, or about the file. */
  readonly problems: readonly string[]
}

/**
 * `export NAME="value" # comment`, where `export`, the quotes and the comment may be missing. Without quotes, a # needs a blank
 * before it: other programs would read the rest in one way or another.
 */
const SETTING =
  /^(?:export\s+)?([\w.-]+)\s*=\s*(?:(?:"([^"]*)"|'([^']*)'|`([^`]*)`)?\s*(?:#.*)?|([^\s"'`#][^#]*?)(?:\s+#.*)?)$/

/** Reads a `.env` file. A missing one sets nothing. */
export function readEnvFile(path: string): EnvFile {
  const problems: string[] = []
  const entries: [name: string, value: string][] = []
  for (const [index, line] of readLines(path, problems).entries()) {
    const text = line.trim()
    if (text === '' || text.startsWith('#')) continue
    const [, name, ...values] = SETTING.exec(text) ?? []
    if (name !== undefined) entries.push([name, values.find(value => value !== undefined) ?? ''])
    else problems.push(`${path}, line ${index + 1}: ${MUST_BE}`)
  }
  return { values: Object.fromEntries(entries), problems }
}

const MUST_BE =
  'it must be NAME=value, a comment (#) or blank, with quotes around a value that has a quote or a #'

function readLines(path: string, problems: string[]): string[] {
  try {
    // The decoder drops the byte order mark that editors on Windows put first.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
    return text.split(/\r\n|\r|\n/)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const why = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8' : code
    if (code !== 'ENOENT') {
      problems.push(`${path} cannot be read (${why}); it must be a file of NAME=value lines`)
    }
    return []
  }
}
