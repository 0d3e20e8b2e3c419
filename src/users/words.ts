import { foldCase } from './user-schemas.ts'

/** Words longer than this are cut, in stored text as in an index. In code points, after folding. */
const MAX_WORD_CHARS = 64

/** Words of a query. */
export const MAX_ASKED_WORDS = 8

/**
 * The longest query, in UTF-16 units: eight words whose characters each decompose into four, of two units each. Sorting the
 * marks of a longer text takes quadratic time.
 */
const MAX_QUERY_UNITS = MAX_ASKED_WORDS * MAX_WORD_CHARS * 4 * 2

/** Grows with each change of what this file or `foldCase` makes of a text. */
const RULES_VERSION = 1

const [UNICODE = 0, UNICODE_MINOR = 0] = (process.versions.unicode ?? '').split('.').map(Number)

/** Words of an older version are made again: by other rules, or by another Unicode, which has more letters. */
export const WORDS_VERSION = RULES_VERSION * 10_000 + UNICODE * 100 + UNICODE_MINOR

const ASCII = /^[\0-\x7f]*$/

/**
 * Marks that people leave out or put elsewhere: accents of Latin, Greek and Cyrillic, titlos, points of Hebrew, vowel signs
 * and hamzas of Arabic. The vowel signs of Indic scripts and the voicing marks of Japanese are letters of their own kind and
 * stay. Also what has no look of its own: tatweel, soft hyphens, joiners, variation selectors, frames around digits.
 */
const ACCENTS =
  /[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\ufe00-\ufe0f\u{e0100}-\u{e01ef}\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed]|[\u200c-\u200d\u00ad\u0640\u2060\ufeff]/gu

/**
 * Letters that do not decompose into a letter and a mark, and what people write without them. Farsi yeh and kaf, and the Arabic
 * yeh without dots, are what other keyboards write for the Arabic letters.
 */
const PLAIN: Readonly<Record<string, string>> = {
  ...{ ß: 'ss', æ: 'ae', œ: 'oe', þ: 'th', ð: 'd' },
  ...{ ø: 'o', đ: 'd', ħ: 'h', ı: 'i', ł: 'l', ŧ: 't' },
  ...{ '\u06cc': '\u064a', '\u0649': '\u064a', '\u06a9': '\u0643' },
}

const UNUSUAL_LETTERS = /[ßæœþðøđħıłŧ\u06cc\u0649\u06a9]/g

/** What keyboards write for an apostrophe. Some of them are letters. */
const APOSTROPHES = /[\u2018\u2019\u02b9-\u02bf\u055a\ua78c\uff07]/g

/**
 * The form in which words are compared: the same for texts that differ only in case, accents, the width or style of letters, and
 * what keyboards write in place of each other. Folding a folded text changes nothing.
 */
export function foldWords(text: string): string {
  if (ASCII.test(text)) return text.toLowerCase()
  return foldCase(text.normalize('NFKD'))
    .normalize('NFKD')
    .replace(ACCENTS, '')
    .replace(UNUSUAL_LETTERS, letter => PLAIN[letter] ?? letter)
    .replace(APOSTROPHES, "'")
    .normalize('NFC')
}

const WORD = /[\p{L}\p{M}\p{N}]+/gu
const ASCII_WORD = /[0-9a-z]+/g

/** The distinct words of a text, folded, cut at MAX_WORD_CHARS, in the order in which they first appear. */
export function wordsOf(text: string): readonly string[] {
  return [...new Set(wholeWordsOf(text).map(word => firstChars(word, MAX_WORD_CHARS)))]
}

/** The distinct words of the name and of the e-mail, with a blank between them: the column `words` of a user. */
export function wordsOfUser({ name, email }: { name: string; email: string }): string {
  return wordsOf(`${name}\n${email}`).join(' ')
}

function wholeWordsOf(text: string): readonly string[] {
  const folded = foldWords(text)
  return folded.match(ASCII.test(folded) ? ASCII_WORD : WORD) ?? []
}

/** The first `count` code points. */
export function firstChars(word: string, count: number): string {
  return word.length <= count ? word : [...word].slice(0, count).join('')
}

/**
 * The words of a query, or what is wrong with it. A word is left out if another one begins with it: users who have the
 * longer word match both.
 */
export function parseAskedWords(text: string): { words: readonly string[]; error?: string } {
  const refuse = (error: string) => ({ words: [], error })
  if (text.length > MAX_QUERY_UNITS) {
    return refuse(`is too long (maximum is ${MAX_QUERY_UNITS} characters)`)
  }
  const words = wholeWordsOf(text)
  if (words.length === 0) return refuse('has no letter and no digit')
  if (words.length > MAX_ASKED_WORDS) {
    return refuse(`has too many words (maximum is ${MAX_ASKED_WORDS} words)`)
  }
  if (words.some(word => firstChars(word, MAX_WORD_CHARS) !== word)) {
    return refuse(`has a word that is too long (maximum is ${MAX_WORD_CHARS} characters)`)
  }
  const distinct = [...new Set(words)]
  const isLongest = (word: string) => distinct.filter(other => other.startsWith(word)).length === 1
  return { words: distinct.filter(isLongest) }
}
