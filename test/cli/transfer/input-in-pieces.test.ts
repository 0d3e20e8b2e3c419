import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createCsvParser } from '../../../src/cli/transfer/csv-rows.ts'
import { createUtf8Reader } from '../../../src/cli/transfer/utf8-reader.ts'
import { SEED } from '../../support/faults.ts'

const field = fc.string({ unit: fc.constantFrom('a', ',', ';', '"', '\n', '\r', ' ', 'é', '😀') })

test('CSV is read as it was written, wherever a chunk of the file ends', () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(field, { minLength: 2, maxLength: 4 })),
      fc.constantFrom('\n', '\r\n', '\r'),
      fc.constantFrom(',', ';', '\t'),
      fc.integer({ min: 1, max: 10 }),
      (table, end, delimiter, piece) => {
        const quoted = (text: string) =>
          text === '' || /^[aé ]+$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`
        const text = table.map(row => row.map(quoted).join(delimiter) + end).join('')
        const parser = createCsvParser(delimiter)
        const rows = []
        for (let at = 0; at < text.length; at += piece)
          rows.push(...parser.push(text.slice(at, at + piece)))
        rows.push(...parser.end())
        expect(parser.fault()).toBeUndefined()
        expect(rows.map(({ fields }) => fields)).toEqual(table)
      },
    ),
    { numRuns: 1000, seed: SEED },
  )
})

const TEXT = 'a\u00e9\u20ac\u{1f600}\ufeff\ufffd\n'.repeat(20)

test.each([
  ['nothing else', [], false],
  ['Latin-1', [0xf6, 0x72, 0x67], true],
  ['a continuation without its start', [0xa9, 0x61], true],
  ['a character that is cut off', [0xe2, 0x82], true],
  ['a surrogate', [0xed, 0xa0, 0x80], true],
])('UTF-8 is decoded, wherever a chunk ends, up to %s', (_what, wrong, isWrong) => {
  const bytes = Buffer.concat([Buffer.from(`\ufeff${TEXT}`), Buffer.from(wrong)])
  for (const piece of [1, 2, 3, 5, 1000]) {
    const reader = createUtf8Reader()
    let read = { text: '', isWrong: false }
    for (let at = 0; at < bytes.length && !read.isWrong; at += piece) {
      const pushed = reader.push(bytes.subarray(at, at + piece))
      read = { text: read.text + pushed.text, isWrong: pushed.isWrong }
    }
    read.isWrong ||= reader.endsInside()
    expect(read, `${piece} bytes at a time`).toEqual({ text: TEXT, isWrong })
  }
})
