import type { Key, Patterns } from './limits-file.ts'
import { listOf, toRegExp } from './patterns.ts'

const UNITS = [
  { name: 'day', ms: 86_400_000 },
  { name: 'hour', ms: 3_600_000 },
  { name: 'minute', ms: 60_000 },
  { name: 'second', ms: 1000 },
]

/** A time as in a limits file, such as `1 day`, `90 seconds` or `50 ms`, in the largest unit that is exact. */
export function timeInWords(ms: number): string {
  const unit = UNITS.find(each => ms % each.ms === 0)
  if (unit === undefined) return `${ms} ms`
  const count = ms / unit.ms
  return `${count} ${unit.name}${count === 1 ? '' : 's'}`
}

/** What a rule counts by, as in `ip and header:X-Api-Key`. */
export function keyInWords(key: Key = 'ip'): string {
  return [key]
    .flat()
    .map(part => (typeof part === 'function' ? functionInWords(part) : part))
    .join(' and ')
}

/** A function with its name. A function that was written in place has the name of its key, which is left out. */
export function functionInWords({ name }: { readonly name: string }): string {
  const isOwn = name !== '' && !KEYS_OF_FUNCTIONS.has(name)
  return isOwn ? `a function (${name})` : 'a function'
}

const KEYS_OF_FUNCTIONS = new Set(['by', 'match', 'to', 'within', 'with'])

export function patternsInWords(patterns: Patterns): string {
  return listOf(patterns)
    .map(pattern =>
      typeof pattern === 'string' ? textInWords(pattern) : String(toRegExp(pattern)),
    )
    .join(' or ')
}

/** As in `, answered with 401 or 404`; empty for a rule that does not wait for the answer. */
export function statusesInWords(statuses: readonly number[] | undefined): string {
  return statuses === undefined ? '' : `, answered with ${statuses.join(' or ')}`
}

/** As in `header Accept *, header X-Key a`. */
export function byNameInWords(key: string, patterns: Readonly<Record<string, Patterns>>): string {
  return Object.entries(patterns)
    .map(([name, value]) => `${key} ${textInWords(name)} ${patternsInWords(value)}`)
    .join(', ')
}

/** A text as it is, or in quotes if it has blanks, line breaks or other unusual characters. */
export function textInWords(text: string): string {
  return /^[\w.:/@%+*-]+$/.test(text) ? text : JSON.stringify(text)
}
