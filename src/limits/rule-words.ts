import type { Key } from './limits-file.ts'

const UNITS = [
  { name: 'day', ms: 86_400_000 },
  { name: 'hour', ms: 3_600_000 },
  { name: 'minute', ms: 60_000 },
  { name: 'second', ms: 1000 },
]

/** A time as rules have it, such as `1 day`, `90 seconds` or `50 ms`, in the largest unit that tells it exactly. */
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

/** A function by its name, which is that of its key where it has none of its own. */
export function functionInWords({ name }: { readonly name: string }): string {
  const isOwn = name !== '' && !KEYS_OF_FUNCTIONS.has(name)
  return isOwn ? `a function (${name})` : 'a function'
}

const KEYS_OF_FUNCTIONS = new Set(['by', 'match', 'to', 'within', 'with'])

/** As it is, or in quotes where it would be mistaken for something else or is more than a line. */
export function textInWords(text: string): string {
  return /^[\w.:/@%+*-]+$/.test(text) ? text : JSON.stringify(text)
}
