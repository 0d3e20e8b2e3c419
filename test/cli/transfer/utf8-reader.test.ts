import { expect, test } from 'vitest'
import { createUtf8Reader } from '../../../src/cli/transfer/utf8-reader.ts'

function read(bytes: Buffer, piece: number) {
  const reader = createUtf8Reader()
  let text = ''
  for (let at = 0; at < bytes.length; at += piece) {
    const pushed = reader.push(bytes.subarray(at, at + piece))
    text += pushed.text
    if (pushed.isWrong) return { text, isWrong: true }
  }
  return { text, isWrong: reader.endsInside() }
}

const TEXT = 'a\u00e9\u20ac\u{1f600}\ufeff\ufffd\n'.repeat(20)

test.each([1, 2, 3, 5, 7, 1000])('createUtf8Reader decodes %i bytes at a time', piece => {
  expect(read(Buffer.from(`\ufeff${TEXT}`), piece)).toEqual({ text: TEXT, isWrong: false })
})

test.each([
  ['Latin-1', Buffer.of(0xf6, 0x72, 0x67)],
  ['a continuation without its start', Buffer.of(0xa9, 0x61)],
  ['a character that is cut off', Buffer.of(0xe2, 0x82)],
  ['one that is cut off inside the text', Buffer.of(0xe2, 0x82, 0x61)],
  ['a surrogate', Buffer.of(0xed, 0xa0, 0x80)],
  ['a byte that is never in UTF-8', Buffer.of(0xff)],
])('createUtf8Reader gives the text before %s', (_what, wrong) => {
  const bytes = Buffer.concat([Buffer.from(TEXT), wrong])
  for (const piece of [1, 2, 3, 5, 1000]) {
    expect(read(bytes, piece)).toEqual({ text: TEXT, isWrong: true })
  }
})
