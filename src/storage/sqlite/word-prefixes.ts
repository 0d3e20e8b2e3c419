import { firstChars, type NamedUser, wordsOfUser } from '../../users/words.ts'

/**
 * How long the beginnings of words are that the index holds, in code points. A beginning of another length is looked up by
 * the next shorter one, and the users are then read to see which of them have the rest.
 */
const PREFIX_CHARS = [1, 2, 3, 4, 6, 8, 12, 16] as const

/** Half of a character beyond U+FFFF. */
const SURROGATE = /[\ud800-\udfff]/

/** The text that the index holds for a user: the beginnings of its words, with blanks between them. */
export function prefixesOf(user: NamedUser): string {
  const prefixes = new Set<string>()
  for (const word of wordsOfUser(user)) {
    const isOfUnits = !SURROGATE.test(word)
    const chars = isOfUnits ? word.length : countChars(word)
    for (const length of PREFIX_CHARS) {
      if (length > chars) break
      // Slicing takes a third of the time, and nearly all words can be sliced.
      prefixes.add(isOfUnits ? word.slice(0, length) : firstChars(word, length))
    }
  }
  return [...prefixes].join(' ')
}

/** What to look up in the index for words that begin with all of `asked`. */
export interface PrefixLookup {
  /** An expression of FTS5. */
  readonly match: string
  readonly prefixes: number
  /** Whether it finds only users that match. */
  readonly isExact: boolean
}

export function lookupOf(asked: readonly string[]): PrefixLookup {
  const prefixes = new Set(asked.map(longestPrefix))
  return {
    // Words have only letters, marks and digits, so nothing in them means anything to FTS5.
    match: [...prefixes].map(prefix => `"${prefix}"`).join(' AND '),
    prefixes: prefixes.size,
    isExact: asked.every(word => longestPrefix(word) === word),
  }
}

function longestPrefix(word: string): string {
  const chars = countChars(word)
  return firstChars(word, PREFIX_CHARS.findLast(length => length <= chars) ?? 1)
}

function countChars(text: string): number {
  let chars = 0
  for (const _ of text) chars++
  return chars
}
