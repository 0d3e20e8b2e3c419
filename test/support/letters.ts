/** The code points for which `isOne` holds, except surrogates and ideographs that are like all others: two of three letters. */
export function codePoints(isOne: (text: string) => boolean): string[] {
  const all = Array.from({ length: 0x110000 }, (_, code) => code)
  const texts = all.filter(code => code < 0xd800 || code > 0xdfff)
  const isAlike = /[\u4e01-\u9fff\u{20000}-\u{2ebef}\u{30000}-\u{323af}]/u
  return texts
    .map(code => String.fromCodePoint(code))
    .filter(text => isOne(text) && !isAlike.test(text))
}
