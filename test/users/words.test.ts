import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  areBegun,
  createWordTest,
  firstChars,
  foldWords,
  parseAskedWords,
  wordsOf,
  wordsOfUser,
} from '../../src/users/words.ts'
import { codePoints } from '../support/letters.ts'

/** What can be part of a name. */
const characters = codePoints(char => /[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}]/u.test(char))

const text = fc.string({ unit: 'binary', maxLength: 40 })

test('foldWords changes nothing in a folded text', () => {
  const changed = characters.filter(char =>
    [char, `a${char}\u0301x`, `${char}\u3099${char}`].some(
      each => foldWords(foldWords(each)) !== foldWords(each),
    ),
  )
  expect(changed).toEqual([])
  fc.assert(
    fc.property(text, value => {
      expect(foldWords(foldWords(value))).toBe(foldWords(value))
    }),
    { numRuns: 2000 },
  )
})

test('foldWords makes the same of capital, small, composed and decomposed letters', () => {
  const differ = characters.flatMap(char =>
    [char.toUpperCase(), char.toLowerCase(), char.normalize('NFD'), char.normalize('NFC')]
      .filter(other => foldWords(other) !== foldWords(char))
      .map(other => [char, other]),
  )
  expect(differ).toEqual([])
})

test.each([
  ['Zoë', ['zoe']],
  ['Ångström', ['angstrom']],
  ['Łódź', ['lodz']],
  ['Straße STRASSE', ['strasse']],
  ['Søren Kierkegård', ['soren', 'kierkegard']],
  ['Þórður Ægir', ['thordur', 'aegir']],
  ['İstanbul ISTANBUL ıstanbul', ['istanbul']],
  ['Nguyễn Văn Đức', ['nguyen', 'van', 'duc']],
  ['Ὀδυσσεύς ΟΔΥΣΣΕΥΣ', ['οδυσσευσ']],
  ['Фёдор Андрей', ['федор', 'андреи']],
  ['أحمد احمد أَحْمَد محـمد', ['احمد', 'محمد']],
  ['שָׁלוֹם', ['שלום']],
  ['王小明', ['王小明']],
  ['ガブリエル ｶﾞﾌﾞﾘｴﾙ カブリエル', ['ガブリエル', 'カブリエル']],
  ['김철수', ['김철수']],
  ['हिन्दी कि', ['हिन्दी', 'कि']],
  ['สมชาย', ['สมชาย']],
  ['ＡＤＡ ﬁn ²', ['ada', 'fin', '2']],
  ["O'Brien-Smith, Dr.", ['o', 'brien', 'smith', 'dr']],
  ['Jean\u00adLuc \u200dA\u200c', ['jeanluc', 'a']],
  ['葛\u{e0100}城', ['葛城']],
  ['😀 — ! "*"', []],
  ['', []],
])('wordsOf %j gives %j', (value, words) => {
  expect(wordsOf(value)).toEqual(words)
})

test('wordsOf cuts words of more than 64 characters, and cuts no character', () => {
  expect(wordsOf('x'.repeat(300))).toEqual(['x'.repeat(64)])
  expect(wordsOf('𝔘'.repeat(300))).toEqual(['u'.repeat(64)])
  expect(wordsOf('𐐨'.repeat(300))).toEqual(['𐐨'.repeat(64)])
  fc.assert(
    fc.property(text, fc.nat(50), (value, count) => {
      expect(firstChars(value, count)).toBe([...value].slice(0, count).join(''))
    }),
  )
})

test('wordsOfUser gives the words of name and e-mail, and no word of both', () => {
  expect(wordsOfUser({ name: 'Ada Love', email: 'lace.ada@example.com' })).toEqual([
    ...['ada', 'love', 'lace', 'example', 'com'],
  ])
})

test('createWordTest tells the same as the words of the user', () => {
  const letters = fc.string({
    unit: fc.constantFrom(...'aab\u0301 -\n.王😀𐐨がが9', '\u{1d165}', 'か\u3099'),
    maxLength: 8,
  })
  fc.assert(
    fc.property(letters, letters, fc.oneof(letters, text), (name, email, q) => {
      const parsed = parseAskedWords(q)
      if ('error' in parsed) return
      const isFound = areBegun(wordsOfUser({ name, email }), parsed.words)
      expect(createWordTest(parsed.words)({ name, email })).toBe(isFound)
    }),
    { numRuns: 5000 },
  )
})

describe('parseAskedWords', () => {
  test.each([
    ['lov ada', ['lov', 'ada']],
    ['  Ada,LOVE ', ['ada', 'love']],
    ['ann an a annabel', ['annabel']],
    ['ada ada', ['ada']],
    ['a b c d e f g h', ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']],
    ['x'.repeat(64), ['x'.repeat(64)]],
    ['ada* OR "x" NEAR(y)', ['ada', 'or', 'x', 'near', 'y']],
  ])('gives for %j the words %j', (value, words) => {
    expect(parseAskedWords(value)).toEqual({ words })
  })

  test.each([
    [' ', 'has no letter and no digit'],
    ['*"-+', 'has no letter and no digit'],
    ['\0', 'has no letter and no digit'],
    ['\ud800', 'has no letter and no digit'],
    ['a a a a a a a a a', 'has too many words (maximum is 8 words)'],
    ['x'.repeat(65), 'has a word that is too long (maximum is 64 characters)'],
    ['ß'.repeat(33), 'has a word that is too long (maximum is 64 characters)'],
    ['x '.repeat(50_000), 'is too long (maximum is 4096 characters)'],
  ])('refuses %j', (value, error) => {
    expect(parseAskedWords(value)).toEqual({ error })
  })

  test('keeps only words that decide, for any text', () => {
    fc.assert(
      fc.property(fc.array(text), text, (asked, name) => {
        const parsed = parseAskedWords(asked.join(' '))
        if ('error' in parsed) return
        const words = wordsOf(name)
        const all = asked.flatMap(each => [...wordsOf(each)])
        expect(areBegun(words, parsed.words)).toBe(areBegun(words, all))
        expect(areBegun(wordsOf(asked.join(' ')), parsed.words)).toBe(true)
      }),
    )
  })
})
