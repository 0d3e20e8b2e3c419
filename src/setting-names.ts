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

/** The most edits between a misspelt name and its setting, by the letters of the setting. */
function maxEdits(letters: number): number {
  if (letters >= 8) return 2
  // Ordinary variables resemble shorter settings: HOSTS resembles HOST, and PORTS resembles PORT.
  return letters === 7 ? 1 : 0
}

/**
 * Every name in `.env` that is not a setting, and names in the environment that resemble one. The environment has many
 * variables of other programs, such as REDIS_TLS_URL beside REDIS_URL, so if the setting that a name resembles is set, the
 * name counts only if it has swapped letters.
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
      ({ name, didYouMean }) =>
        didYouMean !== undefined &&
        (!isSet(didYouMean) || hasSwappedLetters(lettersOf(name), lettersOf(didYouMean))),
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
  const wanted = lettersOf(setting)
  const given = lettersOf(name)
  const most = maxEdits(wanted.length)
  return (
    hasSwappedLetters(given, wanted) ||
    isWithin(most, given, wanted) ||
    (most > 1 && isWithin(most, singularOf(name), singularOf(setting)))
  )
}

/** Whether `edits` suffice. Most pairs differ too much in length, which saves the time of counting: the environment may be large. */
function isWithin(edits: number, from: string, to: string): boolean {
  return Math.abs(from.length - to.length) <= edits && editDistance(from, to) <= edits
}

/** PROT for PORT: two letters next to each other are in the other order. */
function hasSwappedLetters(given: string, wanted: string): boolean {
  return given !== wanted && isWithin(1, given, wanted) && sorted(given) === sorted(wanted)
}

function sorted(letters: string): string {
  return [...letters].sort().join('')
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
