import { readFileSync } from 'node:fs'
import { readFailureInWords } from '../errors.ts'

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
    // The decoder drops the byte order mark that editors on Windows put first.
    const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
    return text.split(/\r\n|\r|\n/)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    const why = readFailureInWords(error)
    problems.push(`${path} cannot be read (${why}); it must be a file of NAME=value lines`)
    return []
  }
}
