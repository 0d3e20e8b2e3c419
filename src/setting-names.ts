import { editDistance } from './nearest.ts'

/** A variable that sets nothing, although it looks as if it should. */
export interface UnknownSetting {
  readonly name: string
  readonly source: '.env' | 'environment'
  /** The setting that was perhaps meant. */
  readonly didYouMean: string | undefined
}

/** One line for the operator. */
export function unknownInWords({ name, source, didYouMean }: UnknownSetting): string {
  const where = source === '.env' ? ' in .env' : ''
  const hint = didYouMean === undefined ? '' : `; did you mean ${didYouMean}?`
  return `${name}${where} is not a setting${hint}`
}

/** Variables by where they were found, and the names that set something. */
export interface NamesGiven {
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly dotenv: Readonly<Record<string, string | undefined>>
  /** The names of all settings. */
  readonly known: readonly string[]
  /** Names of other programs that are read too. */
  readonly others: readonly string[]
  /** Whether names in the environment that resemble `others` count. */
  readonly guessesOthers: boolean
}

/** The most letters in which a misspelt name differs from its setting. */
const MAX_EDITS = 2

/** Shorter settings resemble ordinary variables: HOST resembles HOSTS, and PORT resembles PORTS. */
const MIN_LETTERS_TO_GUESS = 8

/**
 * Every name in `.env` that is not a setting, and names in the environment that resemble one. The environment has many
 * variables of other programs, so a name there counts only if the setting that it resembles is not set.
 */
export function findUnknownSettings(given: NamesGiven): UnknownSetting[] {
  const { environment, dotenv, known, others, guessesOthers } = given
  const isSet = (name: string) => Boolean(environment[name] || dotenv[name])
  const isRead = (name: string) => known.includes(name) || others.includes(name)
  const listUnknown = (
    source: UnknownSetting['source'],
    names: readonly string[],
    candidates: readonly string[],
  ) =>
    names
      .filter(name => !isRead(name))
      .map(name => ({ name, source, didYouMean: guessSetting(name, candidates) }))
  const inEnvironment = Object.keys(environment).filter(name => environment[name] !== '')
  const all = [...known, ...others]
  return [
    ...listUnknown('.env', Object.keys(dotenv), all),
    ...listUnknown('environment', inEnvironment, guessesOthers ? all : known).filter(
      ({ didYouMean }) => didYouMean !== undefined && !isSet(didYouMean),
    ),
  ]
}

function guessSetting(name: string, known: readonly string[]): string | undefined {
  return (
    known.find(setting => lettersOf(setting) === lettersOf(name)) ??
    known.find(setting => isNear(setting, name))
  )
}

function isNear(setting: string, name: string): boolean {
  const isLong = lettersOf(setting).length >= MIN_LETTERS_TO_GUESS
  return isLong && editDistance(singularOf(name), singularOf(setting)) <= MAX_EDITS
}

function lettersOf(name: string): string {
  return name.toUpperCase().replaceAll(/[_.-]/g, '')
}

/** TRUSTPROXY for TRUST_PROXIES. */
function singularOf(name: string): string {
  return name
    .toUpperCase()
    .split(/[_.-]/)
    .map(word => word.replace(/IES$/, 'Y').replace(/S$/, ''))
    .join('')
}
