import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { foldCase } from '../../src/users/user-schemas.ts'
import { foldWords, parseAskedWords, wordsOf } from '../../src/users/words.ts'
import { codePoints } from '../support/letters.ts'
import { areBegun } from '../support/user-scan.ts'

/** What can be part of a name. */
const characters = codePoints(char => /[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}]/u.test(char))

const text = fc.string({ unit: 'binary', maxLength: 40 })

test('foldWords changes nothing in a folded text', () => {
  const isSame = (value: string) => foldWords(foldWords(value)) === foldWords(value)
  const changed = characters.filter(char => !isSame(`${char} a${char}\u0301x ${char}\u3099${char}`))
  expect(changed).toEqual([])
  fc.assert(fc.property(text, isSame))
})

test('foldWords makes the same of capital, small, composed and decomposed letters', () => {
  const differ = characters.flatMap(char =>
    [char.toUpperCase(), char.toLowerCase(), char.normalize('NFD'), char.normalize('NFC')]
      .filter(other => other !== char && foldWords(other) !== foldWords(char))
      .map(other => [char, other]),
  )
  expect(differ).toEqual([])
})

test('foldCase gives the same for each letter and the single letters that Unicode folds it to', () => {
  // A regular expression with the flags `i` and `u` uses the same simple folding.
  const pairs = characters.flatMap(char =>
    [char.toLowerCase(), char.toUpperCase()]
      .filter(
        other => [...other].length === 1 && other !== char && /[\p{L}\p{M}\p{N}\p{S}]/u.test(char),
      )
      .map(other => [char, other] as const),
  )
  const same = pairs.filter(([char, other]) =>
    new RegExp(`^\\u{${char.codePointAt(0)?.toString(16)}}$`, 'iu').test(other),
  )
  expect(same.length).toBeGreaterThan(2000)
  expect(same.filter(([char, other]) => foldCase(char) !== foldCase(other))).toEqual([])
  const apart = ['ı', 'i', 'ß', 'ss', 'ﬁ', 'fi', 'a', 'ä']
  expect(new Set(apart.map(foldCase)).size).toBe(apart.length)
})

test.each([
  ['Łódź Ångström', ['lodz', 'angstrom']],
  ['Straße STRASSE', ['strasse']],
  ['Þórður Ægir', ['thordur', 'aegir']],
  ['İstanbul ISTANBUL ıstanbul', ['istanbul']],
  ['Nguyễn Văn Đức', ['nguyen', 'van', 'duc']],
  ['Ὀδυσσεύς ΟΔΥΣΣΕΥΣ', ['οδυσσευσ']],
  ['Фёдор Андрей', ['федор', 'андреи']],
  ['أحمد احمد أَحْمَد محـمد', ['احمد', 'محمد']],
  ['שָׁלוֹם', ['שלום']],
  ['王小明', ['王小明']],
  ['ガブリエル ｶﾞﾌﾞﾘｴﾙ カブリエル', ['ガブリエル', 'カブリエル']],
  ['हिन्दी कि', ['हिन्दी', 'कि']],
  ['ＡＤＡ ﬁn ²', ['ada', 'fin', '2']],
  ["O'Brien-Smith, Dr.", ['o', 'brien', 'smith', 'dr']],
  ['Jean\u00adLuc \u200dA\u200c 葛\u{e0100}城', ['jeanluc', 'a', '葛城']],
  [
    "Keali'i Keali\u2018i Keali\u2019i Keali\u02bbi Keali\u02bci Keali\ua78ci Keali\uff07i",
    ['keali', 'i'],
  ],
  ['Мар’яна Марʼяна', ['мар', 'яна']],
  [
    '\u0643\u064a\u0627\u0646\u064a \u06a9\u06cc\u0627\u0646\u06cc \u06a9\u0649\u0627\u0646\u0649',
    ['\u0643\u064a\u0627\u0646\u064a'],
  ],
  ['😀 — ! "*"', []],
  ['x'.repeat(300), ['x'.repeat(64)]],
  ['𐐨'.repeat(300), ['𐐨'.repeat(64)]],
])('wordsOf %j gives %j', (value, words) => {
  expect(wordsOf(value)).toEqual(words)
})

describe('parseAskedWords', () => {
  test.each([
    ['  Ada,LOVE ', ['ada', 'love']],
    ['ann an a annabel', ['annabel']],
    ['a b c d e f g h', ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']],
    ['x'.repeat(64), ['x'.repeat(64)]],
    ['ada* OR "x" NEAR(y)', ['ada', 'or', 'x', 'near', 'y']],
  ])('gives for %j the words %j', (value, words) => {
    expect(parseAskedWords(value)).toEqual({ words })
  })

  test('keeps only words that decide, for any text', () => {
    const areEnough = fc.property(fc.array(text), text, (asked, name) => {
      const parsed = parseAskedWords(asked.join(' '))
      if ('error' in parsed) return
      const all = asked.flatMap(each => [...wordsOf(each)])
      expect(areBegun(wordsOf(name), parsed.words)).toBe(areBegun(wordsOf(name), all))
      expect(areBegun(wordsOf(asked.join(' ')), parsed.words)).toBe(true)
    })
    fc.assert(areEnough)
  })
})
