/** The letters that have the same capital as another small letter, with that letter. */
export const TWINS = [
  ...['µμ', 'ςσ', 'ϐβ', 'ϑθ', 'ϕφ', 'ϖπ', 'ϰκ', 'ϱρ', 'ϵε', '\u0345ι', 'ſs', 'ẛṡ', 'ﬅﬆ'],
  ...['ᲀв', 'ᲁд', 'ᲂо', 'ᲃс', 'ᲄт', 'ᲅт', 'ᲆъ', 'ᲇѣ', 'ᲈꙋ'],
].map(pair => [...pair] as [string, string])

/** The code points, except surrogates, for which `isOne` holds. */
export function codePoints(isOne: (text: string) => boolean): string[] {
  const all = Array.from({ length: 0x110000 }, (_, code) => code)
  const texts = all.filter(code => code < 0xd800 || code > 0xdfff)
  return texts.map(code => String.fromCodePoint(code)).filter(isOne)
}
