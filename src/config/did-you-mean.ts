import type { Environment } from './values.ts'

/** A variable that sets nothing, although it looks as if it should. */
export interface UnknownSetting {
  readonly name: string
  readonly source: '.env' | 'environment'
  /** The setting that was perhaps meant. */
  readonly didYouMean: string | undefined
}

/** Variables of other programs resemble shorter names: HOSTS resembles HOST, and API_KEY resembles API_KEYS. */
const MIN_LETTERS = 9

/** A value of API_KEYS only. With a typo in that name the service would be open to all. */
const REQUIRED = 'required'

/**
 * The names in `.env` that are not `known`, and those in the environment that are one letter away from a long known one, or from
 * API_KEYS with a value that only this setting has.
 */
export function findUnknownSettings(
  environment: Environment,
  dotenv: Environment,
  known: readonly string[],
): UnknownSetting[] {
  const long = known.filter(name => name.length >= MIN_LETTERS)
  const unknown = Object.keys({ ...dotenv, ...environment }).filter(name => !known.includes(name))
  return unknown.flatMap(name => {
    const isInFile = Object.hasOwn(dotenv, name)
    const isAny = isInFile || environment[name] === REQUIRED
    const didYouMean = nearest(name, isAny ? known : long)
    const isMeant = environment[name] !== '' && didYouMean !== undefined
    const source = isInFile ? '.env' : 'environment'
    return isInFile || isMeant ? [{ name, source, didYouMean }] : []
  })
}

/** One line for the operator. */
export function unknownInWords({ name, source, didYouMean }: UnknownSetting): string {
  const where = source === '.env' ? ' in .env' : ''
  const hint = didYouMean === undefined ? '' : `; did you mean ${didYouMean}?`
  return `${name}${where} is not a setting${hint}`
}

/**
 * The first candidate that is at most one edit away from `word`: a letter added, removed or replaced, or two neighbours swapped.
 * Ignores case.
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  return candidates.find(candidate => isWithinOneEdit(word.toLowerCase(), candidate.toLowerCase()))
}

function isWithinOneEdit(one: string, other: string): boolean {
  let start = 0
  while (start < one.length && one[start] === other[start]) start++
  const [a, b] = [one.slice(start), other.slice(start)]
  const swapped = b.charAt(1) + b.charAt(0) + b.slice(2)
  return a.slice(1) === b || a === b.slice(1) || a.slice(1) === b.slice(1) || a === swapped
}
