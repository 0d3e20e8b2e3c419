import { readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'

/** What a `.env` file sets. */
export interface Dotenv {
  readonly values: Readonly<Record<string, string | undefined>>
  /** A line for the operator about each line that cannot be parsed, or about the file. */
  readonly problems: readonly string[]
}

/**
 * Reads a `.env` file. A missing one sets nothing. Values are what Node's `parseEnv` makes of them, but each setting is
 * parsed on its own: after a line that it does not understand, `parseEnv` silently skips the next setting.
 */
export function readDotenv(path: string): Dotenv {
  let text: string
  try {
    // The decoder drops the byte order mark that editors on Windows put first.
    text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(path))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return { values: {}, problems: [] }
    const why = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8' : code
    const problem = `${path} cannot be read (${why}); it must be a file of NAME=value lines`
    return { values: {}, problems: [problem] }
  }
  return parseDotenv(path, text)
}

function parseDotenv(path: string, text: string): Dotenv {
  const lines = text.split(/\r\n|\r|\n/)
  const entries: [name: string, value: string][] = []
  const problems: string[] = []
  for (let next = 0; next < lines.length; ) {
    const number = next + 1
    // Only the start is trimmed: the end of a line may be inside quotes.
    const line = lines[next++]?.trimStart() ?? ''
    if (line === '' || line.startsWith('#')) continue
    const setting = parseSetting(line, lines.slice(next))
    if (typeof setting === 'string') {
      problems.push(`${path}, line ${number}: it ${setting}`)
    } else {
      entries.push([setting.name, setting.value])
      next += setting.moreLines
    }
  }
  return { values: Object.fromEntries(entries), problems }
}

interface DotenvSetting {
  readonly name: string
  readonly value: string
  /** How many of the following lines belong to the value. */
  readonly moreLines: number
}

const SETTING = /^(?:export\s+)?([\w.-]+)\s*=/

/** The setting that begins with `line`, or what is wrong with it, to complete the sentence "it …". */
function parseSetting(line: string, following: readonly string[]): DotenvSetting | string {
  const [head = '', name] = SETTING.exec(line) ?? []
  if (name === undefined) return 'must be NAME=value, a comment (#) or blank'
  const start = line.slice(head.length).trimStart()
  const rest = restOfQuoted(start, following)
  if (rest === undefined) {
    return 'has a quote that is not closed; it must be closed by the same quote, at the end of a line'
  }
  const text = [start, ...rest].join('\n')
  const ambiguity = findAmbiguity(text)
  if (ambiguity !== undefined) return ambiguity
  // Under another name, because parseEnv cannot set `__proto__`.
  const { VALUE: value = '' } = parseEnv(`VALUE=${text}\n`)
  // Without quotes, parseEnv trims spaces but not tabs.
  return { name, value: isQuoted(text) ? value : value.trim(), moreLines: rest.length }
}

/** The following lines of a quoted value, none without quotes; `undefined` if the quote is not closed. */
function restOfQuoted(start: string, following: readonly string[]): string[] | undefined {
  const quote = start.charAt(0)
  if (!isQuoted(start) || start.includes(quote, 1)) return []
  const end = following.findIndex(line => line.includes(quote))
  const last = following[end]
  if (last === undefined) return undefined
  // Anything but a comment after the quote means that it opens another value, and that this one was never closed.
  const isClosed = /^\s*(?:#|$)/.test(last.slice(last.indexOf(quote) + 1))
  return isClosed ? following.slice(0, end + 1) : undefined
}

/** What is ambiguous in a value: other programs read it differently, and `parseEnv` would silently cut it off. */
function findAmbiguity(value: string): string | undefined {
  if (isQuoted(value)) {
    const after = value.slice(value.indexOf(value.charAt(0), 1) + 1)
    return /^\s*(?:#|$)/.test(after) ? undefined : 'has text after its closing quote'
  }
  const comment = value.indexOf('#')
  const isAmbiguous = comment > 0 && value.charAt(comment - 1).trim() !== ''
  return isAmbiguous
    ? 'has a # in its value: put a space before it to begin a comment, or quotes around the value'
    : undefined
}

function isQuoted(value: string): boolean {
  return ['"', "'", '`'].includes(value.charAt(0))
}
