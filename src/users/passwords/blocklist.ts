import { type FileHandle, open, stat } from 'node:fs/promises'
import { decodeFile, OperatorError, readFailureInWords } from '../../errors.ts'
import { createSha1List, isSha1Line, sha1Of } from './sha1-list.ts'

/** Passwords that nobody may choose. */
export interface PasswordBlocklist {
  /** Whether a password, in NFKC, is on the list. Rejects with `OperatorError` if its file cannot be read or used any more. */
  has(form: string): Promise<boolean>
  close(): Promise<void>
}

/** The largest file with a password on each line, which is kept in memory. */
const MAX_PLAIN_BYTES = 16 * 1024 * 1024

/** More than the first line of SHA-1, or the blank lines at the end. */
const EDGE_BYTES = 1024

const NO_ORDER = 'its lines are not all SHA-1 in ascending order'

const BOM = '\ufeff'

/**
 * Opens a file of passwords. If its first line is a SHA-1, all lines are, in ascending order, and it stays on the disk.
 * Otherwise each line is a password, in UTF-8 and either case. Rejects with an `OperatorError` of `describe`, which gets what
 * is wrong, if the file cannot be used.
 */
export async function openPasswordBlocklist(
  path: string,
  describe: (reason: string) => string,
): Promise<PasswordBlocklist> {
  const unusable = (reason: string, cause?: unknown) =>
    new OperatorError([describe(reason)], { cause })
  const reading = <T>(work: Promise<T>): Promise<T> =>
    work.catch(cause => {
      const why = readFailureInWords(cause)
      throw why === undefined ? cause : unusable(why, cause)
    })

  // Not opened before: that of a pipe would wait for its writer.
  const found = await reading(stat(path))
  if (found.isDirectory()) throw unusable('it is a folder')
  if (!found.isFile()) throw unusable('it is not a regular file')
  const file = await reading(open(path))
  const list = await reading(readList(file, unusable)).catch(async error => {
    await file.close()
    throw error
  })
  return { has: form => reading(list(form)), close: () => file.close() }
}

type Unusable = (reason: string) => OperatorError

async function readList(file: FileHandle, unusable: Unusable) {
  const { size } = await file.stat()
  const read = async (position: number, length: number) => {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, position)
    return buffer.subarray(0, bytesRead)
  }
  const head = (await read(0, EDGE_BYTES)).toString()
  const start = head.startsWith(BOM) ? Buffer.byteLength(BOM) : 0
  const [line = ''] = head.replace(BOM, '').split('\n')
  if (isSha1Line(line)) {
    const tailAt = Math.max(start, size - EDGE_BYTES)
    const end = tailAt + (await read(tailAt, EDGE_BYTES)).toString('latin1').trimEnd().length
    const list = createSha1List(read, { start, end, wrong: () => unusable(NO_ORDER) })
    await list.checkSamples()
    return (form: string) => list.has(sha1Of(form))
  }
  if (size > MAX_PLAIN_BYTES) {
    throw unusable('its first line is no SHA-1, and as one password a line it is over 16 MiB')
  }
  const lines = indexLines(decodeFile(await read(0, size), why => unusable(`it ${why}`)))
  return async (form: string) => lines.has(form)
}

/** Folds the case of text in NFKC, in both directions: each alone leaves letters that differ only in case. */
function fold(form: string): string {
  return form.toLowerCase().toUpperCase()
}

/** The lines of a text, without regard to case: a hash table of where they begin, because a Set takes thirty times the text. */
function indexLines(text: string) {
  const bytes = Buffer.from(`${fold(text.normalize('NFKC')).replaceAll('\r\n', '\n')}\n`)
  let count = 0
  for (const byte of bytes) if (byte === LINE_END) count++
  /** Where a line begins, plus 1; 0 in free slots. */
  const slots = new Uint32Array(2 ** Math.ceil(Math.log2(2 * count)))

  /** The slot of a line, which ends with its line end, or the free one where it belongs. */
  function slotOf(source: Buffer, from: number, to: number): number {
    let slot = 0
    // FNV-1a.
    for (let at = from; at < to; at++) slot = Math.imul(slot ^ (source[at] as number), 0x01000193)
    for (slot ^= slot >>> 15; ; slot++) {
      const index = slot & (slots.length - 1)
      const place = (slots[index] as number) - 1
      const isIt = () =>
        bytes.compare(source, from, to, place, Math.min(place + to - from, bytes.length)) === 0
      if (place < 0 || isIt()) return index
    }
  }

  for (let from = 0; from < bytes.length; ) {
    const to = bytes.indexOf(LINE_END, from) + 1
    slots[slotOf(bytes, from, to)] = from + 1
    from = to
  }
  return {
    has: (form: string): boolean => {
      const line = Buffer.from(`${fold(form)}\n`)
      return slots[slotOf(line, 0, line.length)] !== 0
    },
  }
}

const LINE_END = 0x0a
