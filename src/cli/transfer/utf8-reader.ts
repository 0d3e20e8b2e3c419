import { isUtf8 } from 'node:buffer'

const BYTE_ORDER_MARK = '\ufeff'

/** Decodes UTF-8 in pieces, which may end inside a character. */
export interface Utf8Reader {
  /** Decodes bytes without a byte order mark. If some are not UTF-8, `text` ends before the first wrong byte. */
  push(chunk: Buffer): { readonly text: string; readonly isWrong: boolean }
  /** Whether the bytes so far end inside a character. */
  endsInside(): boolean
}

export function createUtf8Reader(): Utf8Reader {
  let rest: Buffer = Buffer.alloc(0)
  let isStart = true

  return {
    push: chunk => {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      const whole = wholeCharactersOf(bytes)
      const isWrong = !isUtf8(whole)
      rest = bytes.subarray(whole.length)
      const text = (isWrong ? rightStartOf(bytes) : whole).toString()
      if (!isStart || text === '') return { text, isWrong }
      isStart = false
      return { text: text.startsWith(BYTE_ORDER_MARK) ? text.slice(1) : text, isWrong }
    },
    endsInside: () => rest.length > 0,
  }
}

/** The bytes without an incomplete character at their end. */
function wholeCharactersOf(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] as number
    const isContinuation = byte >= 0x80 && byte < 0xc0
    if (isContinuation) continue
    const length = byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4
    return back < length ? bytes.subarray(0, -back) : bytes
  }
  return bytes
}

/** The bytes before the first one that is not UTF-8. */
function rightStartOf(bytes: Buffer): Buffer {
  const startOf = (length: number) => wholeCharactersOf(bytes.subarray(0, length))
  let right = 0
  let wrong = bytes.length
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2)
    if (isUtf8(startOf(middle))) right = middle
    else wrong = middle
  }
  return startOf(right)
}
